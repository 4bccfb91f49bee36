"""`harness candidates`: submissions to try on the leaderboard, ready to upload one by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.merge_steps import merge_json, parse_merged, passes_lint, print_merge, verify_merge
from harness.cli.options import device_option, json_option, nearest_problem, problem_option
from harness.cli.output import Output, check_writable, write_file
from harness.errors import BrokenWinners, UnknownName

if TYPE_CHECKING:
    from harness.assembly.candidates import Built
    from harness.evaluation.merge_check import MergedShape
    from harness.problem.problem import Problem


@click.command("candidates", short_help="Submissions to try on the leaderboard, one file each.")
@click.argument("names", nargs=-1)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run each file against its parts.")
@click.option("--inspect/--no-inspect", default=True, show_default=True, help="Write what it compiles to above it.")
@device_option
@problem_option
@json_option
def command(
    names: tuple[str, ...],
    verify: bool,
    inspect: bool,
    device: str,
    problem_root: Path | None,
    json_target: str | None,
) -> int:
    """Merge the submissions of variants/candidates.toml into build/candidates/NAME.py; all of them, or NAMES.

    Each is an alternative for every shape, with what its kernels compile to in its header. The leaderboard reports
    each shape's time, so one upload measures one alternative of all of them. A file that breaks a platform rule or
    fails a verdict is not written.
    """
    from harness.assembly.candidates import FILE, build_candidate, read_candidates, with_lines
    from harness.assembly.winners import read_winners
    from harness.problem.problem import open_problem

    output = Output(json_target)
    problem = open_problem(nearest_problem(problem_root))
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    known = {candidate.name: candidate for candidate in read_candidates(problem)}
    if not known:
        raise BrokenWinners(f"variants/{FILE}: no candidates there; add a table [NAME] with why, fallback and shapes")
    for name in names:
        if name not in known:
            raise UnknownName("candidate", name, known)
    documents = []
    good = True
    for name in names or known:
        built = build_candidate(problem, winners, known[name])
        if inspect:
            built = with_lines(built, _inspected(problem, built))
        path = candidates_path(problem, built)
        check_writable(path)
        merged = parse_merged(built.assembly, path)
        passed = passes_lint(output, built.assembly, path)
        checks: list[MergedShape] = []
        if passed and verify:
            checks = verify_merge(output, problem, merged, built.parts, device)
            passed = all(check.passed for check in checks)
        if passed:
            write_file(path, built.assembly.source)
        print_merge(output, built.assembly, path, checks, written=passed)
        documents.append({"name": name, **merge_json(problem, built.assembly, path, checks, written=passed)})
        good = good and passed
    output.json({"candidates": documents})
    return 0 if good else 1


def _inspected(problem: Problem, built: Built) -> list[str]:
    """A line for each kernel of the file on its target; none where the target cannot be compiled for."""
    from harness.inspection.inspect import TARGETS, inspect_file
    from harness.inspection.summary import header_lines
    from harness.problem.variant import Variant

    target = built.candidate.target
    if target not in TARGETS:
        return []
    variant = Variant(candidates_path(problem, built), built.assembly.source, {})
    names = {shape.label: shape.name for shape in problem.shapes}
    shapes = [shape for shape in problem.shapes if shape.label in built.candidate.shapes]
    found = inspect_file(problem, variant, target, shapes)
    return [f"Compiled for {target} by Triton {found.triton}, not run:", *header_lines(found, names)]


def candidates_path(problem: Problem, built: Built) -> Path:
    """The file of a candidate."""
    from harness.assembly.candidates import candidates_folder

    return candidates_folder(problem) / f"{built.candidate.name}.py"
