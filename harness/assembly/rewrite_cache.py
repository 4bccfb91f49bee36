"""Remembers rewritten pieces of source between merges.

Importing LibCST takes half of the time that a merge may take. A rewriting depends on nothing but its arguments and
this package's code, so one that was made before is taken from a file, and where all were, LibCST is not imported.
Every result, from the file or not, is checked by the caller.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import CannotMerge

_CODE = ("rewriting.py", "scopes.py")


class RewriteCache:
    """Rewritten pieces by what they were made from; None as path remembers nothing beyond this object."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._version = _code_version()
        self._before = _read(path) if path is not None else {}
        self._used: dict[str, str] = {}

    def rewritten(
        self,
        source: str,
        changes: Mapping[str, str],
        decisions: Mapping[str, Sequence[bool]],
        place: tuple[Path, int],
    ) -> str:
        """As `harness.assembly.rewriting.rewritten`. place: file and line, for CannotMerge where it cannot be done."""
        key = self._key(source, changes, decisions)
        text = self._used.get(key) or self._before.get(key)
        if text is None:
            from harness.assembly.rewriting import RewriteError, rewritten

            try:
                text = rewritten(source, changes, decisions)
            except RewriteError as error:
                raise CannotMerge(*place, str(error)) from None
        self._used[key] = text
        return text

    def save(self) -> None:
        """Write what this merge used, in one step; a folder that cannot be written to costs only time."""
        if self._path is None or self._used == self._before:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(self._used, file)
            Path(temporary).replace(self._path)

    def _key(self, source: str, changes: Mapping[str, str], decisions: Mapping[str, Sequence[bool]]) -> str:
        made_from = json.dumps([self._version, source, changes, decisions], sort_keys=True)
        return hashlib.sha256(made_from.encode()).hexdigest()


def _code_version() -> str:
    """What a rewriting depends on besides its arguments: this package's code and the Python that reads it."""
    digest = hashlib.sha256(sys.version.encode())
    for name in _CODE:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(text, str) for text in found.values()) else {}
