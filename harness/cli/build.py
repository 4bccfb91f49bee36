"""`harness build`: merge the winners into the one file that the leaderboard takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.merge_steps import merge_json, parse_merged, passes_lint, print_merge, verify_merge
from harness.cli.options import device_option, json_option, nearest_problem, problem_option
from harness.cli.output import Output, check_writable, write_file

if TYPE_CHECKING:
    from harness.evaluation.merge_check import MergedShape

LEADERBOARD_TARGET = "gfx950"


@click.command("build", short_help="Merge the winners of every shape into one file.")
@click.option("--target", default=LEADERBOARD_TARGET, show_default=True, metavar="gfx950|sm_90|portable")
@click.option(
    "--output",
    "output_file",
    type=click.Path(path_type=Path),
    default=None,
    help="Where to write [default: submission.py for gfx950, build/submission_TARGET.py otherwise].",
)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run the merged file against its parts.")
@click.option("--force", is_flag=True, help="Write the file although a verdict failed; the exit code stays 1.")
@device_option
@problem_option
@json_option
def command(
    target: str,
    output_file: Path | None,
    verify: bool,
    force: bool,
    device: str,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Merge the winners that variants/winners.toml names for TARGET, verify the result, and write it.

    Verified means: clean under the platform's source rules, bitwise equal to each variant alone on its shape, and
    right by both verdicts. A file that is not all of this is not written, unless --force says so.
    """
    from harness.assembly.merge import assemble
    from harness.assembly.winners import read_winners
    from harness.problem.problem import open_problem

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    assembly = assemble(problem, target, winners)
    default = Path("submission.py" if target == LEADERBOARD_TARGET else f"build/submission_{target}.py")
    path = output_file or problem.root / default
    check_writable(path)
    merged = parse_merged(assembly, path)
    passed = passes_lint(output, assembly, path)
    checks: list[MergedShape] = []
    if verify and (passed or force):
        parts = {label: problem.variant(winner.variant) for label, winner in assembly.shapes.items()}
        checks = verify_merge(output, problem, merged, parts, device)
        passed = passed and all(check.passed for check in checks)
    if passed or force:
        write_file(path, assembly.source)
    print_merge(output, assembly, path, checks, written=passed or force)
    output.json(merge_json(problem, assembly, path, checks, written=passed or force))
    return 0 if passed else 1
