"""The platform's text report, to the character, from the harness's own record.

Source of the form: gpu-mode/kernelbot, src/libkernelbot/report.py and src/kernelbot/api/api_utils.py (2026).
A case counts as passed where both verdicts pass; on the platform only its own rule counts.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence

from harness.evaluation.result import CaseResult, Evaluation
from harness.report.caveats import all_notes, substitutes
from harness.report.format_time import format_time
from harness.report.wire import failure_message, one_line
from harness.targets.machine import Machine

EXIT_TIMEOUT = 114
_COMMAND_LENGTH = 1000


def platform_text(evaluation: Evaluation) -> str:
    """The report of an evaluation; of its stages in their order where it has any.

    A test stage that failed ends the report, as it ends a submission there. Where kernels were interpreted or a
    stand-in ran, the notes come first, in the place where the platform puts its own remarks.
    """
    stages = evaluation.stages or (evaluation,)
    remarks = "\n".join(all_notes(evaluation)) if substitutes(evaluation) else ""
    parts = [f"{remarks}\n" if remarks else "", running_on(evaluation.machine)]
    for stage in stages:
        if stage.mode == "test" and _failed(stage):
            return "".join([*parts, _testing_failed(stage)])
        parts.append(_stage_text(stage))
    if len(stages) == 1 and _runs(stages[0]) == 1:
        parts.append(_printed(stages[0]))
    return "".join(parts)


def running_on(machine: Machine) -> str:
    """The block that opens a report."""
    return f"""
Running on:
* GPU: `{machine.gpu}`
* CPU: `{machine.cpu}`
* Device count: `{machine.device_count}`
* Runtime: `{machine.runtime}`
* Platform: `{machine.platform}`
* Torch: `{machine.torch}`
* Hostname: `{machine.hostname}`
"""


def crash_text(command: str, exit_code: int, duration_s: float, stderr: str = "", stdout: str = "") -> str:
    """What stands in place of a stage whose whole process died or, with exit code 114, ran out of time.

    The harness's own evaluations outlive a crash and report it with the case; this is for its evaluator run as the
    platform runs one.
    """
    if exit_code == EXIT_TIMEOUT:
        what = f"**timed out** after {duration_s:.2f} seconds."
    else:
        what = f"exited with error code **{exit_code}** after {duration_s:.2f} seconds."
    heading = f"# Running failed\nCommand ```bash\n{_shortened(command)}```\n{what}"
    return heading + _output_logs(stderr, stdout)


def log_of_tests(cases: Sequence[CaseResult]) -> str:
    """One line a test, and its message below where it has one."""
    lines: list[str] = []
    for case in cases:
        passed = case.status == "pass"
        lines.append(f"{'✅' if passed else '❌'} {case.spec}")
        message = one_line(case.official.message if passed else failure_message(case))
        if message:
            lines.append("> " + message.replace("\\n", "\n"))
    return "\n".join(lines) if lines else "❗ Could not find any test cases"


def log_of_benchmarks(cases: Sequence[CaseResult]) -> str:
    """Two or three lines a benchmark, and an empty one after each; – for a time that was not taken."""
    lines: list[str] = []
    for case in cases:
        if case.status != "pass":
            lines += [f"❌ {case.spec} failed testing:\n", one_line(failure_message(case)), ""]
            continue
        timing = case.timing
        lines += [case.spec, f" ⏱ {format_time(timing and timing.mean, timing and timing.err)}"]
        if timing is not None:
            lines.append(f" ⚡ {format_time(timing.best)} 🐌 {format_time(timing.worst)}")
        lines.append("")
    return "\n".join(lines) if lines else "❗ Could not find any benchmarks"


def _stage_text(stage: Evaluation) -> str:
    if stage.mode == "test":
        count = len(stage.cases)
        return _log(f"✅ Passed {count}/{count} tests", log_of_tests(stage.cases))
    if stage.mode == "profile":
        return "".join(_log(f"Profiling {case.spec}", _profile_log(case)) for case in stage.cases)
    return _log("Ranked Benchmark" if stage.mode == "leaderboard" else "Benchmarks", log_of_benchmarks(stage.cases))


def _profile_log(case: CaseResult) -> str:
    if case.status != "pass":
        return log_of_benchmarks([case])
    return textwrap.indent(case.profile or "", "  ") + "\n"


def _failed(stage: Evaluation) -> bool:
    return any(case.status != "pass" for case in stage.cases)


def _runs(stage: Evaluation) -> int:
    """How many runs the platform makes of a stage: one, but in profile mode one for each case."""
    return len(stage.cases) if stage.mode == "profile" else 1


def _testing_failed(stage: Evaluation) -> str:
    command = shlex.join(["harness", "eval", stage.file, "--mode", stage.mode])
    heading = (
        f"# Testing failed\nCommand ```bash\n{_shortened(command)}```\n"
        f"ran successfully in {stage.duration_s:.2f} seconds, but did not pass all tests.\n"
    )
    return heading + _log("Test log", log_of_tests(stage.cases)) + _printed(stage)


def _printed(stage: Evaluation) -> str:
    return _output_logs(stage.stderr, stage.stdout)


def _output_logs(stderr: str, stdout: str) -> str:
    logs = [("Program stderr", stderr.strip()), ("Program stdout", stdout.strip())]
    return "".join(_log(header, content) for header, content in logs if content)


def _log(header: str, content: str) -> str:
    return f"\n\n## {header}:\n```\n{content}```"


def _shortened(command: str) -> str:
    return command if len(command) <= _COMMAND_LENGTH else command[: _COMMAND_LENGTH - 6] + " [...]"
