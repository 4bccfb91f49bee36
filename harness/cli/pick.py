"""`harness pick`: who should hold each shape, by the records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import json_option, nearest_problem, problem_option
from harness.cli.output import Output, write_file

if TYPE_CHECKING:
    from harness.problem.problem import Problem
    from harness.problem.variant import Variant
    from harness.records.evidence import Evidence
    from harness.records.pick import Choice


@click.command("pick", short_help="Propose winners from the records; --apply writes winners.toml.")
@click.option("--target", default=None, metavar="gfx950|sm_90|portable", help="[default: of the newest timed record]")
@click.option("--apply", is_flag=True, help="Write the proposed lines into variants/winners.toml.")
@problem_option
@json_option
def command(target: str | None, apply: bool, problem_root: Path | None, json_target: str | None) -> int:
    """Say for each shape which variant should hold it, by records of its present source only.

    The incumbent of winners.toml stays unless an A/B of both present sources says FASTER of another, or it failed the
    exact verdict or a probe. All times are from one device and one Triton; what was left out is named.
    """
    from harness.assembly.winners import read_winners
    from harness.assembly.winners_edit import with_winners
    from harness.problem.problem import open_problem
    from harness.records.evidence import gather
    from harness.records.pick import choose
    from harness.records.store import open_store

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    path = problem.variants_folder / "winners.toml"
    winners = read_winners(path, problem)
    candidates = _candidates(problem)
    with open_store(problem.root, output.say) as store:
        target = target or store.newest_timed_target() or "gfx950"
        held = winners.of(target)
        evidence = gather(store, target, candidates)
    choices = choose(target, held, [shape.label for shape in problem.shapes], candidates, evidence)
    _print(output, problem, target, evidence, choices)
    new = {choice.shape: choice.winner for choice in choices if choice.updated}
    if new:
        text = with_winners(path.read_text(encoding="utf-8-sig"), winners, target, new, problem)
        if apply:
            write_file(path, text)
    _print_lines(output, target, new, applied=apply)
    output.json(_as_json(target, evidence, choices, applied=apply and bool(new)))
    return 0


def _candidates(problem: Problem) -> list[Variant]:
    """The variants, without the plain modules that have no entry. Raises BrokenSubmission for a broken one."""
    from harness.problem.variant import ENTRY, defines, parse_source, read_source, read_variant

    paths = problem.variant_paths().values()
    return [read_variant(path) for path in paths if defines(parse_source(read_source(path), path), ENTRY)]


def _print(output: Output, problem: Problem, target: str, evidence: Evidence, choices: list[Choice]) -> None:
    from rich.table import Table

    say = output.console.print
    say(f"{target}: {evidence.ground or 'no timed record'}", markup=False, soft_wrap=True)
    table = Table("shape", "holds it", "proposed", "times, fastest first", "why")
    for choice in choices:
        times = ", ".join(f"{figure.variant} {_time(figure.mean_ns)}" for figure in choice.figures[:3]) or "–"
        proposed = choice.winner.variant if choice.changed else "="
        table.add_row(
            f"{problem.shape(choice.shape).name} {choice.shape}", choice.incumbent, proposed, times, choice.reason
        )
    say(table)
    for choice in choices:
        for name, why in choice.failures.items():
            say(f"never picked for {choice.shape}: {name} {why}", markup=False, soft_wrap=True)
    for sentence in evidence.stale:
        say(sentence, markup=False, soft_wrap=True)
    for asked in dict.fromkeys(choice.asked for choice in choices if choice.asked):
        say(f"would decide: harness ab {asked}", markup=False, soft_wrap=True)


def _print_lines(output: Output, target: str, new: dict[str, Any], *, applied: bool) -> None:
    from harness.assembly.winners_edit import winner_lines

    if not new:
        output.console.print("Nothing to change in variants/winners.toml.", markup=False)
        return
    said = "Wrote into variants/winners.toml:" if applied else "For variants/winners.toml (--apply writes it):"
    for line in [said, *winner_lines(target, new)]:
        output.console.print(line, markup=False, soft_wrap=True)


def _time(mean_ns: float) -> str:
    from harness.assembly.header import time_text

    return time_text(mean_ns)


def _as_json(target: str, evidence: Evidence, choices: list[Choice], *, applied: bool) -> dict[str, Any]:
    ground = evidence.ground
    return {
        "target": target,
        "device": ground and ground.device,
        "triton": ground and ground.triton,
        "applied": applied,
        "stale": list(evidence.stale),
        "shapes": [
            {
                "shape": choice.shape,
                "incumbent": choice.incumbent,
                "winner": choice.winner.variant,
                "changed": choice.changed,
                "record": choice.winner.record,
                "time_ns": choice.winner.time_ns,
                "why": choice.reason,
                "candidates": [
                    {"variant": each.variant, "mean": each.mean_ns, "err": each.err_ns, "record": each.run.id}
                    for each in choice.figures
                ],
                "failed": choice.failures,
                "ab": choice.duel and {"ratio": choice.duel.ratio, "low": choice.duel.low, "high": choice.duel.high},
                "would_decide": choice.asked or None,
            }
            for choice in choices
        ],
    }
