"""`harness build`: merge the winners into the one file that the leaderboard takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import device_option, json_option, nearest_problem, problem_option
from harness.cli.output import Output, check_writable, write_file
from harness.errors import BrokenSubmission

if TYPE_CHECKING:
    from harness.assembly.merge import Assembly
    from harness.evaluation.merge_check import MergedShape
    from harness.problem.problem import Problem
    from harness.problem.variant import Variant

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
    merged = _parse(assembly, path)
    passed = _lint(output, assembly, path)
    checks: list[MergedShape] = []
    if verify and (passed or force):
        checks = _verify(output, problem, assembly, merged, device)
        passed = passed and all(check.passed for check in checks)
    if passed or force:
        write_file(path, assembly.source)
    _report(output, assembly, path, checks, written=passed or force)
    output.json(_as_json(problem, assembly, path, checks, written=passed or force))
    return 0 if passed else 1


def _parse(assembly: Assembly, path: Path) -> Variant:
    """The merged source as a submission; that it parses is the merge's own duty."""
    from harness.problem.variant import Variant, parse_source, read_declared

    tree = parse_source(assembly.source, path)
    return Variant(path, assembly.source, read_declared(tree, path))


def _lint(output: Output, assembly: Assembly, path: Path) -> bool:
    from harness.lint.check import lint_source

    findings = [finding for finding in lint_source(assembly.source, path) if finding.fatal]
    for finding in findings:
        output.console.print(
            f"{path}:{finding.line}: refused [{finding.rule}] {finding.message}", markup=False, soft_wrap=True
        )
    return not findings


def _verify(output: Output, problem: Problem, assembly: Assembly, merged: Variant, device: str) -> list[MergedShape]:
    from harness.cli.progress import step_progress
    from harness.evaluation.merge_check import check_merge
    from harness.targets.machine import open_machine

    parts = {label: problem.variant(winner.variant) for label, winner in assembly.shapes.items()}
    machine = open_machine(device)
    results: list[MergedShape] = []
    with step_progress(output.errors, "verifying") as update:
        update(0, len(parts))

        def listen(result: MergedShape) -> None:
            results.append(result)
            update(len(results), len(parts))

        check_merge(problem, merged, parts, machine, listen)
    if not results:
        raise BrokenSubmission(f"{merged.path}: no shape of this problem was merged, so nothing can be verified")
    output.console.print(f"Verified on: {machine.gpu or machine.cpu or 'this CPU'}, kernels on {machine.kind}")
    return results


def _report(output: Output, assembly: Assembly, path: Path, checks: Sequence[MergedShape], *, written: bool) -> None:
    from rich.table import Table

    from harness.report.figures import percent

    by_label = {check.label: check for check in checks}
    columns = ("shape", "variant", "= alone", "official", "exact", "error", "worst row", "ran")
    table = Table(*columns, title=f"{path.name} for {assembly.target}")
    for label, winner in assembly.shapes.items():
        check = by_label.get(label)
        if check is None:
            table.add_row(label, winner.variant, *["–"] * 6)
            continue
        equal = "yes" if check.equal else "NO"
        ran = (check.slice_of or "all") + (", stand-in" if check.stand_in else "")
        table.add_row(
            f"{check.shape} {label}", winner.variant, equal, check.official.status, check.exact.status,
            percent(check.exact.error), percent(check.exact.worst_row), ran,
        )  # fmt: skip
    output.console.print(table)
    for check in checks:
        if check.reason:
            output.console.print(f"{check.shape} {check.label}: {check.reason}", markup=False, soft_wrap=True)
    if any(check.stand_in for check in checks):
        from harness.aiter_stand_in import NOTICE

        output.console.print(NOTICE, markup=False, soft_wrap=True)
    if not checks:
        output.console.print("Not verified (--no-verify): `harness check` says whether it is right.", markup=False)
    elif any(check.slice_of for check in checks):
        output.console.print(
            "Interpreted on the CPU, a slice of each shape: correctness only. Nothing here was timed.", markup=False
        )
    verb = "Wrote" if written else "Did NOT write"
    output.console.print(
        f"{verb} {path}: {assembly.bytes:,} bytes, {assembly.packed_bytes:,} packed; fallback {assembly.fallback}.",
        markup=False,
        soft_wrap=True,
    )


def _as_json(
    problem: Problem, assembly: Assembly, path: Path, checks: Sequence[MergedShape], *, written: bool
) -> dict[str, Any]:
    by_label = {check.label: check for check in checks}
    shapes = {}
    for label, winner in assembly.shapes.items():
        check = by_label.get(label)
        verified = None
        if check is not None:
            verified = {
                "equal": check.equal,
                "official": check.official.status,
                "exact": check.exact.status,
                "error": check.exact.error,
                "worst_row": check.exact.worst_row,
                "slice_of": check.slice_of,
                "stand_in": check.stand_in,
                "reason": check.reason,
            }
        name = problem.shape(label).name
        shapes[name] = {"label": label, "variant": winner.variant, "why": winner.why, "verified": verified}
    return {
        "target": assembly.target,
        "output": str(path),
        "written": written,
        "bytes": assembly.bytes,
        "shapes": shapes,
        "fallback": assembly.fallback,
    }
