"""Where a command's results go: the terminal, and JSON beside or instead of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.errors import FileProblem

_PLAIN_WIDTH = 140


class Output:
    """Prints for people, and writes JSON where it was asked for.

    With `--json -` standard output carries the JSON and nothing else; what is for people goes to standard error.
    Raises FileProblem at once where the JSON could not be written, before any work is done for it.
    """

    def __init__(self, json_target: str | None = None) -> None:
        self._json_target = json_target
        if json_target not in (None, "-"):
            check_writable(Path(json_target))
        file = sys.stderr if json_target == "-" else sys.stdout
        self.console = Console(file=file, width=None if file.isatty() else _PLAIN_WIDTH, highlight=False)
        self.errors = Console(stderr=True, highlight=False)

    def say(self, line: str) -> None:
        """A line for the user beside the results, on standard error."""
        self.errors.print(line, markup=False, soft_wrap=True)

    def json(self, value: Any) -> None:
        """Write the result where `--json` says; nothing without it. Raises FileProblem."""
        if self._json_target is None:
            return
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        if self._json_target == "-":
            sys.stdout.write(text)
        else:
            write_file(Path(self._json_target), text)


def check_writable(path: Path) -> None:
    """Raise FileProblem where `write_file` would: to be asked before the work whose result it writes."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir():
        raise FileProblem(f"cannot write {path}: it is a folder")
    if not folder.is_dir():
        raise FileProblem(f"cannot write {path}: {folder} is not a folder")
    if not os.access(folder, os.W_OK):
        raise FileProblem(f"cannot write {path}: {folder} is read-only")


def write_file(path: Path, text: str) -> None:
    """Replace `path` with `text` in one step, by way of a temporary file beside it. Raises FileProblem."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise FileProblem(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise FileProblem(f"cannot write {path}: {error.strerror}") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
