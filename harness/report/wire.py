"""The platform's result lines, `key: value`, written and read.

Source of the keys: gpu-mode/reference-kernels, problems/amd_202602/eval.py; of the reading: gpu-mode/kernelbot,
src/libkernelbot/run_eval.py (both 2026). Where the platform's evaluator would write a status of its own rule only,
this one also fails a case that fails the `exact` verdict, with that reason.
"""

from __future__ import annotations

import base64
import re
from dataclasses import fields

from harness.evaluation.result import CaseResult, Evaluation, Mode
from harness.timing.statistics import Statistics

# Everything that `str.splitlines` breaks a line at, which is how the platform reads the pipe.
_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# Of base64's last two characters; the platform replaces + and / by these.
_ALTERNATIVE_CHARACTERS = b"+*"


def wire_text(evaluation: Evaluation) -> str:
    """All lines of one evaluation, each with its end."""
    lines = opening_lines(evaluation.mode, len(evaluation.cases))
    for index, case in enumerate(evaluation.cases):
        lines += case_lines(evaluation.mode, index, case)
    lines += closing_lines(passed=all(case.status == "pass" for case in evaluation.cases))
    return "".join(f"{line}\n" for line in lines)


def opening_lines(mode: Mode, count: int) -> list[str]:
    """What comes before the first case: how many there are."""
    return [f"{_family(mode)}-count: {count}"]


def case_lines(mode: Mode, index: int, case: CaseResult) -> list[str]:
    """What one case adds, without line ends: spec, then status or figures in nanoseconds.

    A passed case that was not timed has no figures: there is nothing true to write.
    """
    lines = [f"{_family(mode)}.{index}.{key}: {one_line(value)}" for key, value in _values(mode, case)]
    return [line.rstrip() for line in lines]


def closing_lines(*, passed: bool) -> list[str]:
    """What comes after the last case."""
    return [f"check: {'pass' if passed else 'fail'}"]


def failure_message(case: CaseResult) -> str:
    """Why a case did not pass: the platform's own message where its rule failed, else the harness's reason."""
    return case.official.message if case.official.status == "fail" and case.official.message else case.reason


def one_line(text: str) -> str:
    """`text` on one line: each line break becomes a backslash and an n, which the platform's report turns back."""
    return _LINE_BREAK.sub(r"\\n", text.strip())


def decoded_profile(value: str) -> str:
    """The profiler's table from the value of a `report` key. Raises ValueError for anything else."""
    return base64.b64decode(value.encode("ascii"), _ALTERNATIVE_CHARACTERS, validate=True).decode("utf-8")


def parse_wire(text: str) -> dict[str, str]:
    """The values by key, as the platform reads them: later lines win, lines without a colon become empty values."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key or value:
            values[key.strip()] = value.strip()
    return values


def _family(mode: Mode) -> str:
    return "test" if mode == "test" else "benchmark"


def _values(mode: Mode, case: CaseResult) -> list[tuple[str, str]]:
    values = [("spec", case.spec)]
    if case.status != "pass":
        return [*values, ("status", "fail"), ("error", failure_message(case))]
    if mode == "test":
        message = [("message", case.official.message)] if case.official.message else []
        return [*values, ("status", "pass"), *message]
    if mode == "profile":
        table = base64.b64encode((case.profile or "").encode("utf-8"), _ALTERNATIVE_CHARACTERS)
        return [*values, ("report", table.decode("ascii"))]
    if case.timing is None:
        return values
    return [*values, *((field.name, str(getattr(case.timing, field.name))) for field in fields(Statistics))]
