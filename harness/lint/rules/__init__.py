"""The rules, one family a file, in the order of docs/lint.md."""

from __future__ import annotations

from harness.lint.rule import Rule
from harness.lint.rules import (
    directives,
    evaluator,
    execution,
    import_time,
    interpreter,
    outputs,
    patching,
    process,
    text,
)

RULES: tuple[Rule, ...] = tuple(
    rule
    for family in (text, directives, outputs, patching, interpreter, evaluator, execution, process, import_time)
    for rule in family.rules()
)
