"""`harness check`: is it right, and is it honest?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from harness.cli.output import Output
from harness.errors import UnknownName

if TYPE_CHECKING:
    from harness.evaluation.check import FileCheck
    from harness.problem.problem import Problem, Shape
    from harness.problem.variant import Variant


@click.command("check", short_help="Both verdicts and every probe; no timing.")
@click.argument("files", nargs=-1, required=True)
@click.option("--probe", "probe_names", multiple=True, metavar="NAME", help="Only this probe; may be repeated.")
@shapes_option
@device_option
@click.option("--seed", type=int, default=None, help="Draw the inputs from this seed [default: a secret one].")
@declaration_options
@problem_option
@json_option
def command(
    files: tuple[str, ...],
    probe_names: tuple[str, ...],
    shapes: str | None,
    device: str,
    seed: int | None,
    kv: str | None,
    rounding: str | None,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Say of each of FILES (paths or variant names) whether it is right, and whether it would be for any input.

    `official` is the platform's own rule, `exact` the error against the float64 answer; each probe then asks one
    question that wrong and dishonest kernels answer wrongly. docs/checking.md explains them.
    """
    from harness.cli.progress import label_progress
    from harness.evaluation.check import check_file, choose_probes
    from harness.problem.problem import open_problem
    from harness.records.recorder import recording
    from harness.targets.machine import open_machine

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    probes = choose_probes(probe_names)
    variants = [problem.variant(file) for file in files]
    chosen = [_shapes_of(problem, variant, shapes) for variant in variants]
    machine = open_machine(device)
    results = []
    for variant, its_shapes in zip(variants, chosen, strict=True):
        options = {"probes": list(probe_names) or None, "seed": seed, "kv": kv, "rounding": rounding}
        with (
            recording(problem, machine, "check", output.say, options=options) as recorder,
            label_progress(output.errors) as listener,
        ):
            result = check_file(
                problem,
                variant,
                machine,
                shapes=its_shapes,
                other_shapes=[shape for shape in problem.shapes if variant.takes(shape.label)],
                probes=probes,
                declaration=declaration_of(kv, rounding),
                seed=seed,
                listener=listener,
                finished=partial(recorder.shape, variant),
            )
        _print(output, result)
        results.append(result)
    documents = [_as_json(result) for result in results]
    output.json(documents[0] if len(documents) == 1 else documents)
    return 0 if all(result.passed for result in results) else 1


def _shapes_of(problem: Problem, variant: Variant, text: str | None) -> list[Shape]:
    shapes = problem.select_shapes(text)
    taken = [shape for shape in shapes if variant.takes(shape.label)]
    if not taken or (text and len(taken) < len(shapes)):
        refused = next(shape for shape in shapes if shape not in taken)
        accepted = [word for s in problem.shapes if variant.takes(s.label) for word in (s.name, s.label)]
        raise UnknownName(f"shape for {variant.name}", refused.label, accepted)
    return taken


def _print(output: Output, result: FileCheck) -> None:
    from rich.table import Table

    from harness.report.figures import percent

    columns = ("shape", "official", "mismatch", "exact", "error", "worst row", "format costs", "probes", "ran")
    table = Table(*columns, title=result.file)
    for shape in result.shapes:
        asked = [probe for probe in shape.probes.values() if probe.status != "not applicable"]
        good = sum(probe.status == "pass" for probe in asked)
        ran = (shape.slice_of or "all") + (", stand-in" if shape.stand_in else "")
        table.add_row(
            f"{shape.shape} {shape.label}", shape.official.status, percent(shape.official.mismatch_ratio),
            shape.exact.status, percent(shape.exact.error), percent(shape.exact.worst_row), percent(shape.format_cost),
            f"{good} of {len(asked)} pass", ran,
        )  # fmt: skip
    output.console.print(table)
    _print_probes(output, result)
    for note in result.notes:
        output.console.print(note, markup=False, soft_wrap=True)
    verdict = "right and honest as far as was checked here" if result.passed else "NOT right"
    output.console.print(f"{result.file}: {verdict}", markup=False, soft_wrap=True)


def _print_probes(output: Output, result: FileCheck) -> None:
    """Each probe once where all shapes agree on its status, and every failure."""
    for shape in result.shapes:
        if shape.reason or shape.exact.status == "fail" or shape.official.status == "fail":
            why = shape.reason or shape.exact.detail or shape.official.message.splitlines()[0]
            output.console.print(f"  {shape.shape} {shape.label}: {why}", markup=False, soft_wrap=True)
    names: Sequence[str] = list(result.shapes[0].probes) if result.shapes else []
    for name in names:
        by_status: dict[str, list[Any]] = {}
        for shape in result.shapes:
            by_status.setdefault(shape.probes[name].status, []).append(shape)
        for status, shapes in by_status.items():
            shown = shapes if status == "fail" else shapes[:1]
            for shape in shown:
                where = shape.shape if status == "fail" else ", ".join(s.shape for s in shapes)
                output.console.print(
                    f"  {name:<16} {status:<14} {where}: {shape.probes[name].detail}", markup=False, soft_wrap=True
                )


def _as_json(result: FileCheck) -> dict[str, Any]:
    cases = [
        {
            "shape": shape.shape,
            "label": shape.label,
            "official": asdict(shape.official),
            "exact": asdict(shape.exact),
            "format_cost": shape.format_cost,
            "probes": {name: asdict(probe) for name, probe in shape.probes.items()},
            "slice_of": shape.slice_of,
            "stand_in": shape.stand_in,
            "reason": shape.reason,
        }
        for shape in result.shapes
    ]
    return {
        "file": result.file,
        "device": result.machine.kind,
        "check": "pass" if result.passed else "fail",
        "cases": cases,
        "notes": list(result.notes),
    }
