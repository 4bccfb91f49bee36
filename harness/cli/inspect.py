"""`harness inspect`: what a file's kernels compile to, without the GPU."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import json_option, nearest_problem, problem_option, shapes_option
from harness.cli.output import Output

if TYPE_CHECKING:
    from harness.inspection.inspect import Inspection
    from harness.problem.problem import Problem, Shape
    from harness.problem.variant import Variant


@click.command("inspect", short_help="What each kernel compiles to for a target, without the GPU.")
@click.argument("file", required=False)
@click.option("--target", default="gfx950", show_default=True, metavar="gfx950|sm_90")
@click.option("--diff", "other", default=None, metavar="FILE", help="Show FILE's kernels beside it, where they differ.")
@click.option("--estimate", is_flag=True, help="Print a lower bound and an estimate of each shape, term by term.")
@shapes_option
@problem_option
@json_option
def command(
    file: str | None,
    target: str,
    other: str | None,
    estimate: bool,
    shapes: str | None,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Compile every Triton kernel that FILE (default: submission.py) launches, as it would be on TARGET.

    The file runs in a process where the device seems to be there and Triton compiles instead of launching, so the
    constants, types and settings are those of real launches; no kernel runs. A kernel that spills registers or needs
    more shared memory than there is ends the command with exit code 1.
    """
    from harness.inspection.inspect import inspect_file
    from harness.problem.problem import open_problem

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    variants = [problem.variant(file or str(problem.root / "submission.py"))]
    variants += [problem.variant(other)] if other else []
    found = [inspect_file(problem, each, target, _taken(problem, each, shapes)) for each in variants]
    for inspection in found:
        _print(output, problem, inspection)
        if estimate:
            _print_estimates(output, problem, inspection)
    if other:
        _print_difference(output, problem, *found)
    documents = [_as_json(inspection, estimate) for inspection in found]
    output.json(documents[0] if len(documents) == 1 else documents)
    return 0 if all(inspection.passed for inspection in found) else 1


def _taken(problem: Problem, variant: Variant, text: str | None) -> list[Shape]:
    from harness.errors import UnknownName

    chosen = problem.select_shapes(text)
    taken = [shape for shape in chosen if variant.takes(shape.label)]
    if not taken or (text and len(taken) < len(chosen)):
        refused = next(shape for shape in chosen if shape not in taken)
        raise UnknownName(
            f"shape for {variant.name}", refused.label, [s.label for s in problem.shapes if variant.takes(s.label)]
        )
    return taken


def _print(output: Output, problem: Problem, inspection: Inspection) -> None:
    from harness.inspection.summary import kernel_table

    names = {shape.label: shape.name for shape in problem.shapes}
    say = output.console.print
    if inspection.kernels:
        say(kernel_table(inspection, names))
    for kernel in inspection.kernels:
        for problem_found in kernel.facts.problems:
            aside = "" if not kernel.fits else "; its tuner skips it, as Triton does"
            say(f"{kernel.name} ({kernel.constants}): {problem_found}{aside}", markup=False, soft_wrap=True)
    for label, why in inspection.failures.items():
        place = f"{names.get(label, '')} {label}".strip() or "import"
        say(f"{place}: not inspected: {why}", markup=False, soft_wrap=True)
    if inspection.stand_in:
        say("The file calls aiter: its own kernels are not Triton's and are not inspected.", markup=False)
    say("Compiled, not run: times are not known from this.", markup=False)


def _print_difference(output: Output, problem: Problem, first: Inspection, second: Inspection) -> None:
    from rich.table import Table

    from harness.inspection.summary import difference_rows

    rows = difference_rows(first, second, {shape.label: shape.name for shape in problem.shapes})
    table = Table("where", "figure", Path(first.file).stem, Path(second.file).stem, title="Where they differ")
    for row in rows:
        table.add_row(*row)
    output.console.print(table if rows else "The kernels are the same in every figure.")


def _print_estimates(output: Output, problem: Problem, inspection: Inspection) -> None:
    from rich.table import Table

    from harness.inspection.estimate import estimate_shapes

    columns = ("memory", "vector", "matrix", "shared", "rest", "bound", "estimate")
    table = Table(
        "shape", "kernel", "programs", "at once", "rounds", "turns", *columns, title="Estimates in µs, not times"
    )
    found = estimate_shapes(inspection)
    for each in found:
        name = f"{problem.shape(each.shape).name} {each.shape}"
        for terms in each.launches:
            counts = (terms.programs, terms.resident, terms.rounds, terms.iterations)
            figures = [_microseconds(getattr(terms, column)) for column in columns]
            table.add_row(name, terms.kernel, *map(str, counts), *figures)
        table.add_row(name, "whole", *[""] * 9, _microseconds(each.bound), _microseconds(each.estimate))
        table.add_section()
    output.console.print(table)
    left_out = [label for label in inspection.bytes_needed if label not in {each.shape for each in found}]
    if left_out:
        said = f"Not estimated, since no Triton kernel does the work there: {', '.join(left_out)}."
        output.console.print(said, markup=False)
    output.console.print(
        "From the compiled code alone: stalls, bank conflicts and spills are not in it. docs/cost-model.md says how far"
        " such estimates were from measured times.",
        markup=False,
        soft_wrap=True,
    )


def _microseconds(time_ns: float) -> str:
    return f"{time_ns / 1e3:.1f}"


def _as_json(inspection: Inspection, estimate: bool) -> dict[str, Any]:
    amd = inspection.target.startswith("gfx")
    kernels = []
    for kernel in inspection.kernels:
        facts = kernel.facts
        kernels.append(
            {
                "name": kernel.name,
                "line": kernel.line,
                "constants": dict(kernel.constants),
                "types": dict(kernel.types),
                "options": dict(kernel.options),
                "warps": kernel.warps,
                "stages": kernel.stages,
                "launches": [asdict(launch) for launch in kernel.launches],
                ("vgpr" if amd else "registers"): facts.registers,
                "agpr": facts.accumulators,
                "sgpr": facts.scalars,
                "spills": facts.spills,
                "scratch": facts.scratch_bytes,
                ("lds" if amd else "shared"): facts.shared_bytes,
                "occupancy": asdict(facts.occupancy),
                "matrix": facts.matrix,
                "matrix_in_loop": facts.matrix_in_loop,
                "byte_loads": facts.byte_loads,
                "wide_loads": facts.wide_loads,
                "shared_reads": facts.shared_reads,
                "waits": facts.waits,
                "barriers": facts.barriers,
                "instructions": facts.instructions,
                "loop_instructions": facts.loop_instructions,
                "notes": list(facts.problems),
            }
        )
    return {
        "file": inspection.file,
        "target": inspection.target,
        "triton": inspection.triton,
        "check": "pass" if inspection.passed else "fail",
        "stand_in": inspection.stand_in,
        "failures": dict(inspection.failures),
        "kernels": kernels,
        **({"estimates": _estimates_json(inspection)} if estimate else {}),
    }


def _estimates_json(inspection: Inspection) -> list[dict[str, Any]]:
    from harness.inspection.estimate import estimate_shapes

    return [asdict(each) for each in estimate_shapes(inspection)]
