"""Drains what a child prints, keeps a bounded part of it, and notices a flood."""

from __future__ import annotations

import threading
from typing import BinaryIO

KEPT_BYTES = 64 << 10
FLOOD_BYTES = 16 << 20


class OutputCapture:
    """Reads one pipe to its end on a thread of its own, so that a child never blocks on printing.

    The first KEPT_BYTES are kept; everything is counted. `flooded` is set once FLOOD_BYTES have passed.
    """

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self.total_bytes = 0
        self.flooded = threading.Event()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._pipe:
            while chunk := self._pipe.read1(1 << 16):
                self.total_bytes += len(chunk)
                self._kept += chunk[: max(0, KEPT_BYTES - len(self._kept))]
                if self.total_bytes > FLOOD_BYTES:
                    self.flooded.set()

    def finish(self) -> None:
        """Wait a moment for the pipe's end, once the process is gone."""
        self._thread.join(timeout=1.0)

    def text(self) -> str:
        """What was kept so far, with a line saying how much was not."""
        text = self._kept.decode(errors="replace")
        left_out = self.total_bytes - len(self._kept)
        return f"{text}\n[… {left_out} more bytes]" if left_out > 0 else text
