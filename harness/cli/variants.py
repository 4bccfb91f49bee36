"""`harness variants`: the candidates and what each says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import json_option, nearest_problem, problem_option
from harness.cli.output import Output
from harness.errors import BrokenSubmission

if TYPE_CHECKING:
    from harness.assembly.winners import Winners
    from harness.problem.problem import Problem
    from harness.records.record import CaseRecord, Run


@click.command("variants", short_help="The candidates: shapes, targets, KV, winner or not.")
@problem_option
@json_option
def command(problem_root: Path | None, json_target: str | None) -> None:
    """List the candidates of variants/, and for which target and shape each is the winner."""
    from rich.table import Table

    from harness.assembly.header import time_text
    from harness.assembly.winners import read_winners
    from harness.problem.problem import open_problem
    from harness.problem.variant import read_variant
    from harness.records.store import open_store

    problem = open_problem(nearest_problem(problem_root))
    output = Output(json_target)
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    table = Table("variant", "shapes", "targets", "reads", "rounding", "last verdict", "best time", "winner of")
    variants = []
    for path in problem.variant_paths().values():
        try:
            variants.append(read_variant(path))
        except BrokenSubmission as error:
            if "defines no custom_kernel" in str(error):
                continue
            raise
    with open_store(problem.root, output.say) as store:
        latest = store.latest_of_sources([variant.source_hash for variant in variants])
    rows = []
    for variant in variants:
        own = [(run, case) for run, case in latest if case.source_hash == variant.source_hash]
        row = {
            "name": variant.name,
            "shapes": list(variant.shapes) if variant.shapes is not None else "any",
            "targets": list(variant.targets),
            "kv": variant.declared.get("kv"),
            "rounding": variant.declared.get("rounding"),
            "last_verdict": _last_verdict(own),
            "best": _best_times(problem, own),
            "winner_of": _places(problem, winners, variant.name),
        }
        rows.append(row)
        best = [f"{each['shape']} {time_text(each['mean'])} ({each['device']})" for each in row["best"]]
        shown = {**row, "best": best}
        columns = ("name", "shapes", "targets", "kv", "rounding", "last_verdict", "best", "winner_of")
        table.add_row(*(_cell(shown[key]) for key in columns))
    output.console.print(table)
    output.json({"variants": rows})


def _last_verdict(own: list[tuple[Run, CaseRecord]]) -> str | None:
    """Of the newest run of this source, over the shapes that it had: `pass 2026-12-01`; None without records."""
    if not own:
        return None
    newest = own[0][0].id
    statuses = {case.status for run, case in own if run.id == newest}
    worst = next(status for status in ("fail", "not checked", "pass") if status in statuses)
    return f"{worst} {own[0][0].started_at[:10]}"


def _best_times(problem: Problem, own: list[tuple[Run, CaseRecord]]) -> list[dict[str, Any]]:
    """For each shape and device, the smallest of the newest times of this source."""
    names = {shape.label: shape.name for shape in problem.shapes}
    best: dict[tuple[str, str], float] = {}
    for run, case in own:
        if case.mean_ns is not None and case.status == "pass":
            key = (case.shape, run.device)
            best[key] = min(case.mean_ns, best.get(key, case.mean_ns))
    order = list(names)
    found = sorted(best.items(), key=lambda item: (order.index(item[0][0]) if item[0][0] in names else 99, item[0]))
    return [{"shape": names.get(label, label), "device": device, "mean": mean} for (label, device), mean in found]


def _places(problem: Problem, winners: Winners, name: str) -> list[str]:
    """Where a variant wins, a target each: `gfx950 S4 S6`, `portable fallback`."""
    places = []
    for target, held in winners.targets.items():
        names = [problem.shape(label).name for label, winner in held.shapes.items() if winner.variant == name]
        names += ["fallback"] if held.fallback == name else []
        if names:
            places.append(f"{target} {' '.join(names)}")
    return places


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return value if isinstance(value, str) else ", ".join(value)
