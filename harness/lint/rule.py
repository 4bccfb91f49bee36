"""A source rule: a name, how bad it is, and the function that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.lint.finding import Finding
from harness.lint.source import Source

Hits = Iterable[tuple[int, str]]


@dataclass(frozen=True)
class Rule:
    """name: as in docs/lint.md. fatal: whether the platform refuses the file for it.

    check: gives line numbers with messages; several hits of a rule on one line count once.
    """

    name: str
    fatal: bool
    check: Callable[[Source], Hits]

    def findings(self, source: Source) -> list[Finding]:
        """What the rule finds in `source`, in the order of the lines."""
        by_line: dict[int, str] = {}
        for line, message in self.check(source):
            by_line.setdefault(line, message)
        return [Finding(self.name, line, message, self.fatal) for line, message in sorted(by_line.items())]
