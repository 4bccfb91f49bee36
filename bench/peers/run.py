"""`make peers`: times public MLA kernels on the same inputs in the same run, where they are installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.eval import clear_bytes
from harness.cli.main import run
from harness.cli.options import device_option, json_option, nearest_problem, problem_option, shapes_option
from harness.cli.output import Output

if TYPE_CHECKING:
    from harness.evaluation.evaluate import CaseListener
    from harness.evaluation.result import CaseResult


@click.command("peers")
@click.argument("files", nargs=-1)
@shapes_option
@device_option
@click.option("--clear", default=None, metavar="BYTES|official", help="As of `harness eval`.")
@click.option("--limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each kernel.")
@problem_option
@json_option
def command(
    files: tuple[str, ...],
    shapes: str | None,
    device: str,
    clear: str | None,
    limit: float | None,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Time public MLA kernels, and FILES (paths or variants' names) beside them, on the same inputs in this run.

    Each is a submission file that goes through the harness's child, clocks and `exact`. One that is not installed is
    named with the way to get it and is no failure; one that is there and wrong ends the run with exit code 1.
    """
    from bench.peers.measure import Peer, measure, peers
    from bench.peers.table import peers_json, print_peers
    from harness.cli.progress import case_progress
    from harness.problem.problem import open_problem
    from harness.records.recorder import recording
    from harness.targets.machine import open_machine

    output = Output(json_target)
    problem, machine = open_problem(nearest_problem(problem_root)), open_machine(device)
    own = [Peer(variant.name, variant) for variant in map(problem.variant, files)]
    chosen = {peer.name: peer for peer in (*own, *peers())}
    # One run for all of them, so that the report can set each beside the others of the same run.
    options = {"clear": clear, "limit_s": limit, "peers": True}
    with (
        recording(problem, machine, "eval", output.say, "benchmark", options) as recorder,
        case_progress(output.errors) as shown,
    ):

        def listener(name: str) -> CaseListener:
            def listen(index: int, count: int, result: CaseResult | None, label: str) -> None:
                shown(index, count, result, f"{name} {label}")
                if result is not None:
                    recorder.case(chosen[name].variant, result, label)

            return listen

        results = list(measure(problem, list(chosen.values()), machine, shapes, clear_bytes(clear), limit, listener))
    print_peers(output.console, results)
    output.json(peers_json(results))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], command))
