"""The platform's source rules, applied before the platform does: `lint_source`, `lint_file`, `Finding`, `RULES`.

Reads syntax trees of the standard library and runs nothing; docs/lint.md describes each rule.
"""

from __future__ import annotations

from harness.lint.check import lint_file, lint_source
from harness.lint.finding import Finding
from harness.lint.rule import Rule
from harness.lint.rules import RULES

__all__ = ["RULES", "Finding", "Rule", "lint_file", "lint_source"]
