"""`harness history`: the records, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import json_option, nearest_problem, problem_option
from harness.cli.output import Output

if TYPE_CHECKING:
    from harness.problem.problem import Problem
    from harness.records.record import CaseRecord, Run


@click.command("history", short_help="The records over time, of a variant and a shape.")
@click.argument("variant", required=False)
@click.option("--shape", default=None, help="Only this shape, e.g. S2 or 4x8192.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="At most so many, newest first."
)
@problem_option
@json_option
def command(
    variant: str | None, shape: str | None, limit: int, problem_root: Path | None, json_target: str | None
) -> int:
    """List what was measured and checked here, newest first: of VARIANT (a file's name without .py), or of all."""
    from harness.errors import UnknownName
    from harness.problem.problem import open_problem
    from harness.records.store import open_store

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    label = problem.select_shapes(shape)[0].label if shape else None
    with open_store(problem.root, output.say) as store:
        if variant is not None:
            known = store.variant_names()
            if known and variant not in known:
                raise UnknownName("variant in the records", variant, known)
        found = store.cases(variant=variant, shape=label, limit=limit)
    if found:
        _print(output, problem, found)
    else:
        output.console.print("No records yet: `harness eval`, `check` and `ab` write them.", markup=False)
    output.json({"records": [_as_json(run, case) for run, case in found]})
    return 0


def _print(output: Output, problem: Problem, found: list[tuple[Run, CaseRecord]]) -> None:
    from rich.table import Table

    from harness.report.figures import percent
    from harness.report.format_time import format_time

    names = {shape.label: shape.name for shape in problem.shapes}
    table = Table("when (UTC)", "record", "what", "variant", "shape", "official", "exact", "error", "time")
    for run, case in found:
        time = "–" if case.mean_ns is None else format_time(case.mean_ns, case.err_ns)
        what = f"{run.kind} {run.mode}" if run.mode else run.kind
        what += "" if run.finished else " (cut short)"
        table.add_row(
            run.started_at[:16].replace("T", " "), run.id, what, f"{case.variant} {case.source_hash[:7]}",
            names.get(case.shape, case.shape), case.official, case.exact, percent(case.error), time,
        )  # fmt: skip
    output.console.print(table)
    for line in dict.fromkeys(_where(run) for run, _ in found):
        output.console.print(line, markup=False, soft_wrap=True)


def _where(run: Run) -> str:
    commit = f", commit {run.commit[:9]}{'+changes' if '+' in run.commit else ''}" if run.commit else ""
    return f"on {run.device} ({run.device_kind}), torch {run.torch}, Triton {run.triton}{commit}"


def _as_json(run: Run, case: CaseRecord) -> dict[str, Any]:
    return {
        "record": run.id, "kind": run.kind, "mode": run.mode, "started_at": run.started_at, "finished": run.finished,
        "device": run.device, "device_kind": run.device_kind, "target": run.target, "driver": run.driver,
        "torch": run.torch, "triton": run.triton, "commit": run.commit, "variant": case.variant, "file": case.file,
        "source_hash": case.source_hash, "shape": case.shape, "status": case.status, "official": case.official,
        "exact": case.exact, "error": case.error, "reason": case.reason, "runs": case.runs, "mean": case.mean_ns,
        "std": case.std_ns, "err": case.err_ns, "best": case.best_ns, "worst": case.worst_ns,
        "floor_ns": case.floor_ns,
    }  # fmt: skip
