"""What a rule reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of a file that a rule objects to; `dataclasses.asdict` gives the JSON shape.

    rule: the rule's name, as docs/lint.md lists it. line: from 1. message: one line, with what to do instead.
    fatal: True where the platform refuses the file (some rules: where its static guard is switched on).
    """

    rule: str
    line: int
    message: str
    fatal: bool
