"""The parent's handle on the process that runs a submission."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import WorkerFailed
from harness.evaluation.output_capture import FLOOD_BYTES, OutputCapture
from harness.evaluation.process_tree import adopt_orphans, end_tree
from harness.evaluation.protocol import Deadline, DeadlinePassed, receive, send
from harness.evaluation.run_folder import RunFolder
from harness.evaluation.shield import hide_from_children

# Nothing of the evaluation, or of a test run around it, may reach the submission through its environment.
_HIDDEN = re.compile(r"^(POPCORN_|HARNESS_|PYTEST_|CI_)")


class SubmissionError(WorkerFailed):
    """The submission raised: `traceback` holds its frames, `line` the submission's own line if known."""

    def __init__(self, message: str, traceback: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.traceback, self.line = traceback, line

    @property
    def leaves_device_unusable(self) -> bool:
        """Whether the GPU context is lost with this error, so that only a fresh process can go on."""
        return any(sign in f"{self}{self.traceback}" for sign in ("CUDA error", "HIP error", "AcceleratorError"))


class Child:
    """One fresh process; `request` talks to it, `close` ends it and all it started."""

    def __init__(self, folder: RunFolder, *, interpret: bool) -> None:
        adopt_orphans()
        hide_from_children()
        self._mark = f"SUBMISSION_RUN={secrets.token_hex(8)}"
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.evaluation.worker", str(theirs.fileno())],
                cwd=folder.path,
                env=child_environment(folder, self._mark, interpret=interpret),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout = OutputCapture(self._process.stdout)
        self.stderr = OutputCapture(self._process.stderr)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def request(
        self,
        command: str,
        deadline: Deadline,
        payload: bytes | memoryview = b"",
        max_payload_bytes: int = 1 << 32,
        **arguments: Any,
    ) -> tuple[dict[str, Any], bytearray]:
        """Send one command and wait for its answer.

        Raises SubmissionError when the submission raised (the child lives on), DeadlinePassed when it did not
        answer in time and WorkerFailed when it died, flooded its output or broke the protocol; after these
        two the child has been ended and must be replaced.
        """
        try:
            send(self._channel, {"command": command, **arguments}, payload, deadline)
            self._await_answer(deadline)
            answer, data = receive(self._channel, deadline, max_payload_bytes)
        except DeadlinePassed:
            self.close()
            raise DeadlinePassed("hung: no answer in the time allowed") from None
        except (EOFError, OSError):
            raise WorkerFailed(self._how_it_ended()) from None
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            line = answer.get("line")
            raise SubmissionError(
                _printable(answer["error"]),
                _printable(answer.get("traceback", "")),
                line if isinstance(line, int) else None,
            )
        return answer, data

    def _await_answer(self, deadline: Deadline) -> None:
        while not select.select([self._channel], [], [], min(0.2, deadline.remaining_s))[0]:
            if self._flooded:
                raise WorkerFailed(self._flood_message)
            if deadline.passed:
                raise DeadlinePassed("no answer in time")

    @property
    def _flooded(self) -> bool:
        return self.stdout.flooded.is_set() or self.stderr.flooded.is_set()

    _flood_message = f"printed more than {FLOOD_BYTES >> 20} MiB"

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.close()
            return "closed its connection to the harness and lived on; the harness ended it"
        self.close()
        if self._flooded:
            return self._flood_message
        if code < 0:
            with suppress(ValueError):
                return f"crashed: {signal.Signals(-code).name}"
        return f"the process exited with code {code} before it answered"

    def close(self) -> None:
        """End the process and everything it started; safe to call twice."""
        self._channel.close()
        end_tree(self.pid, self._mark)
        self._process.wait()
        self.stdout.finish()
        self.stderr.finish()


def _printable(text: object) -> str:
    """Text that any terminal, file or pipe takes: a lone surrogate of a submission's message becomes `?`."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def child_environment(folder: RunFolder, mark: str, *, interpret: bool) -> dict[str, str]:
    """The environment of a process that imports the submission: nothing in it tells of the evaluation.

    mark: NAME=VALUE by which everything that the process starts is found again. interpret: Triton is interpreted.
    """
    environment = {name: value for name, value in os.environ.items() if not _HIDDEN.match(name)}
    inherited = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in inherited if path and not (Path(path) / "harness" / "__init__.py").exists()]
    environment["PYTHONPATH"] = os.pathsep.join([str(folder.library), *kept])
    environment["TORCH_EXTENSIONS_DIR"] = str(folder.extensions)
    name, _, value = mark.partition("=")
    environment[name] = value
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
        # The interpreter's many small products gain nothing from a second thread, and several children may run.
        for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(library, "1")
    return environment
