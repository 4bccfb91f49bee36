"""`harness ab`: is A faster than B?"""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from harness.cli.options import device_option, json_option, nearest_problem, problem_option, shapes_option
from harness.cli.output import Output


@click.command("ab", short_help="Sound A/B comparison of two variants or files.")
@click.argument("a")
@click.argument("b")
@shapes_option
@click.option("--blocks", default=20, show_default=True, help="Blocks of 5 quads a shape and process; at least 20.")
@click.option("--processes", default=3, show_default=True, help="Repeat in so many fresh processes.")
@click.option("--delta", default=0.005, show_default=True, help="The least relative difference that matters.")
@click.option("--seed", type=int, default=None, help="Of the inputs and the orders [default: drawn].")
@device_option
@problem_option
@json_option
def command(
    a: str,
    b: str,
    shapes: str | None,
    blocks: int,
    processes: int,
    delta: float,
    seed: int | None,
    device: str,
    problem_root: Path | None,
    json_target: str | None,
) -> None:
    """Compare two submissions on this machine's GPU: interleaved, every timed output verified, with a noise floor.

    A and B are variant names or files. Needs a GPU: no timing comes from an interpreter or a stand-in.
    """
    from harness.cli.progress import step_progress
    from harness.compare.as_json import comparison_json, origin_json
    from harness.compare.plan import Plan
    from harness.compare.run import compare
    from harness.compare.table import print_comparison, print_provenance
    from harness.errors import MissingCapability, UnknownName
    from harness.evaluation.ability import require_device
    from harness.evaluation.arms import arms_opener
    from harness.problem.problem import open_problem
    from harness.records.recorder import recording
    from harness.targets.device_clocks import read_device_clocks
    from harness.targets.machine import open_machine
    from harness.targets.provenance import provenance
    from harness.timing.clear import CLEAR_BYTES

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    first, second = problem.variant(a), problem.variant(b)
    chosen = problem.select_shapes(shapes)
    both = [shape for shape in chosen if first.takes(shape.label) and second.takes(shape.label)]
    if not both or (shapes and len(both) < len(chosen)):
        refused = next(shape for shape in chosen if shape not in both)
        accepted = [s.label for s in problem.shapes if first.takes(s.label) and second.takes(s.label)]
        raise UnknownName("shape for both files", refused.label, accepted)
    machine = open_machine(device)
    if not machine.on_gpu:
        raise MissingCapability("ab times kernels and needs a GPU; without one, `harness check` compares correctness")
    for variant in (first, second):
        require_device(variant, [shape.label for shape in both], machine)
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    plan = Plan(tuple(shape.label for shape in both), blocks=blocks, processes=processes, seed=seed)
    opener = arms_opener(problem, first, second, machine, CLEAR_BYTES, seed)
    clocks_before = read_device_clocks(machine)
    with (
        recording(problem, machine, "ab", output.say, options={"seed": seed}) as recorder,
        step_progress(output.errors, "blocks") as on_block,
    ):
        comparison = compare(a, b, plan, opener, delta=delta, on_block=on_block)
        recorder.comparison(first, second, comparison)
    origin = provenance(machine, problem.root, clocks_before)
    print_provenance(origin, seed, output.console)
    print_comparison(comparison, output.console)
    measured_on = origin_json(origin, first.source_hash, second.source_hash, CLEAR_BYTES)
    output.json({**comparison_json(comparison), **measured_on})
