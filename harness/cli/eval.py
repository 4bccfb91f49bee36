"""`harness eval`: evaluate one file on this machine."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import (
    declaration_of,
    declaration_options,
    device_option,
    json_option,
    nearest_problem,
    problem_option,
    shapes_option,
)
from harness.cli.output import Output, check_writable, write_file

if TYPE_CHECKING:
    from harness.evaluation.result import CaseResult


@click.command("eval", short_help="Evaluate a submission or a variant on this machine.")
@click.argument("file", required=False)
@click.option(
    "--mode",
    default="test",
    show_default=True,
    metavar="test|benchmark|leaderboard|profile",
    help="The platform's mode.",
)
@click.option(
    "--profiler",
    default="torch",
    show_default=True,
    metavar="torch|ncu|rocprof",
    help="Of mode profile: torch's table, or the device's counters by ncu or rocprofv3 where these are installed.",
)
@device_option
@shapes_option
@click.option("--seed", type=int, default=None, help="The platform's secret seed, combined with each case's own.")
@click.option(
    "--clear",
    default=None,
    metavar="BYTES|official",
    help="Bytes written before each timed call, at least 512 MB, or the platform's own 62.5 GiB [default: 8 GiB].",
)
@click.option("--out", "report_file", metavar="FILE", default=None, help="Write the platform's text report to FILE.")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this long, keeping what was measured.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="Share a case's timed calls among so many fresh processes, each of which has a launch cost of its own.",
)
@declaration_options
@problem_option
@json_option
def command(
    file: str | None,
    mode: str,
    profiler: str,
    device: str,
    shapes: str | None,
    seed: int | None,
    clear: str | None,
    report_file: str | None,
    limit: float | None,
    processes: int,
    kv: str | None,
    rounding: str | None,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Evaluate FILE, a path or a variant's name (default: submission.py), as the platform would, and exactly.

    Runs the file in a child process, case by case, and gives two verdicts: `official`, the platform's own rule,
    and `exact`, the error against the float64 answer. Without a GPU, Triton is interpreted: no timings.
    """
    from harness.cli.progress import case_progress
    from harness.evaluation.evaluate import Request, evaluate
    from harness.problem.problem import open_problem
    from harness.records.recorder import recording
    from harness.report.json_report import evaluation_json
    from harness.report.platform_text import platform_text
    from harness.report.tables import print_evaluation
    from harness.targets.machine import open_machine

    began_s = time.monotonic()
    output = Output(json_target)
    if profiler != "torch" and mode != "profile":
        raise click.UsageError(f"--profiler {profiler} is for --mode profile, not --mode {mode}")
    if report_file is not None:
        check_writable(Path(report_file))
    problem = open_problem(nearest_problem(problem_root))
    variant = problem.variant(file or str(problem.root / "submission.py"))
    request = Request(
        mode=mode,
        device=device,
        shapes=shapes,
        secret_seed=seed,
        limit_s=limit,
        declaration=declaration_of(kv, rounding),
        clear_bytes=clear_bytes(clear),
        profiler=profiler,
        processes=processes,
    )
    machine = open_machine(device)
    options = {
        "clear": clear, "seed": seed, "limit_s": limit, "kv": kv, "rounding": rounding, "processes": processes,
    }  # fmt: skip
    with (
        recording(problem, machine, "eval", output.say, mode, options) as recorder,
        case_progress(output.errors) as shown,
    ):

        def listen(index: int, count: int, result: CaseResult | None, label: str) -> None:
            shown(index, count, result, label)
            if result is not None:
                recorder.case(variant, result, label)

        evaluation = evaluate(problem, variant, request, machine=machine, listener=listen)
    evaluation = replace(evaluation, duration_s=time.monotonic() - began_s)
    print_evaluation(output.console, evaluation)
    if report_file is not None:
        write_file(Path(report_file), platform_text(evaluation))
    output.json(evaluation_json(evaluation))
    return 0 if evaluation.passed else 1


def clear_bytes(text: str | None) -> int | None:
    """Bytes of `--clear`; None for the platform's own clear. Raises click.UsageError for anything else."""
    from harness.timing.clear import CLEAR_BYTES, refuse_small_clear

    if text is None:
        return CLEAR_BYTES
    if text == "official":
        return None
    if not text.isdigit():
        raise click.UsageError(f"--clear {text}: expected a number of bytes or 'official'")
    if (refusal := refuse_small_clear(int(text))) is not None:
        raise click.UsageError(f"--clear {text}: {refusal}")
    return int(text)
