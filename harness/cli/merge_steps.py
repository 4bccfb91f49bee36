"""What `harness build` and `harness candidates` do with a merged file: lint it, run it against its parts, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.output import Output
from harness.errors import BrokenSubmission

if TYPE_CHECKING:
    from harness.assembly.merge import Assembly
    from harness.evaluation.merge_check import MergedShape
    from harness.problem.problem import Problem
    from harness.problem.variant import Variant


def parse_merged(assembly: Assembly, path: Path) -> Variant:
    """The merged source as a submission; that it parses is the merge's own duty."""
    from harness.problem.variant import Variant, parse_source, read_declared

    tree = parse_source(assembly.source, path)
    return Variant(path, assembly.source, read_declared(tree, path))


def passes_lint(output: Output, assembly: Assembly, path: Path) -> bool:
    """Whether the platform would take the source; prints each rule that it breaks."""
    from harness.lint.check import lint_source

    findings = [finding for finding in lint_source(assembly.source, path) if finding.fatal]
    for finding in findings:
        output.console.print(
            f"{path}:{finding.line}: refused [{finding.rule}] {finding.message}", markup=False, soft_wrap=True
        )
    return not findings


def verify_merge(
    output: Output, problem: Problem, merged: Variant, parts: Mapping[str, Variant], device: str
) -> list[MergedShape]:
    """Run the merged file and each shape's own variant on the same inputs. parts: shape label → variant.

    Raises BrokenSubmission where there is nothing to run.
    """
    from harness.cli.progress import step_progress
    from harness.evaluation.merge_check import check_merge
    from harness.targets.machine import open_machine

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


def print_merge(
    output: Output, assembly: Assembly, path: Path, checks: Sequence[MergedShape], *, written: bool
) -> None:
    """The table of shapes, what must be read with it, and what was written."""
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


def merge_json(
    problem: Problem, assembly: Assembly, path: Path, checks: Sequence[MergedShape], *, written: bool
) -> dict[str, Any]:
    """The `--json` document of one merged file."""
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
