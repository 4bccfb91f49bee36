"""Applies every rule to a file."""

from __future__ import annotations

import gc
from pathlib import Path

from harness.errors import FileProblem
from harness.lint.finding import Finding
from harness.lint.rules import RULES
from harness.lint.source import Source


def lint_source(source: str, path: Path | str) -> list[Finding]:
    """The findings in the text of a submission, by line; never raises for what the text holds.

    The text is best given as the file holds it, byte-order mark and line ends included (`lint_file` does).
    """
    was_enabled = gc.isenabled()
    gc.disable()  # tens of thousands of tree nodes at once: collecting between them doubles the time
    try:
        checked = Source(source, path)
        found = [finding for rule in RULES for finding in rule.findings(checked)]
    finally:
        if was_enabled:
            gc.enable()
    return sorted(found, key=lambda finding: finding.line)


def lint_file(path: Path) -> list[Finding]:
    """The findings in a file. Raises FileProblem when it cannot be read."""
    if path.is_dir():
        raise FileProblem(f"{path} is a folder; expected a Python file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileProblem.missing(path) from None
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror}") from None
    return lint_source(data.decode("utf-8", "surrogateescape"), path)
