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


@click.command("variants", short_help="The candidates: shapes, targets, KV, winner or not.")
@problem_option
@json_option
def command(problem_root: Path | None, json_target: str | None) -> None:
    """List the candidates of variants/, and for which target and shape each is the winner."""
    from rich.table import Table

    from harness.assembly.winners import read_winners
    from harness.problem.problem import open_problem
    from harness.problem.variant import read_variant

    problem = open_problem(nearest_problem(problem_root))
    output = Output(json_target)
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    table = Table("variant", "shapes", "targets", "reads", "rounding", "winner of")
    rows = []
    for name, path in problem.variant_paths().items():
        try:
            variant = read_variant(path)
        except BrokenSubmission as error:
            if "defines no custom_kernel" in str(error):
                continue
            raise
        row = {
            "name": name,
            "shapes": list(variant.shapes) if variant.shapes is not None else "any",
            "targets": list(variant.targets),
            "kv": variant.declared.get("kv"),
            "rounding": variant.declared.get("rounding"),
            "winner_of": _places(problem, winners, name),
        }
        rows.append(row)
        table.add_row(*(_cell(row[key]) for key in ("name", "shapes", "targets", "kv", "rounding", "winner_of")))
    output.console.print(table)
    output.json({"variants": rows})


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
