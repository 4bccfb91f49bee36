"""`harness lint`: the platform's source rules, before the platform applies them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from harness.cli.options import json_option
from harness.cli.output import Output


@click.command("lint", short_help="The platform's source rules, with line numbers.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(files: tuple[Path, ...], json_target: str | None) -> int:
    """Say what the platform would refuse in each of FILES, and where; docs/lint.md explains every rule."""
    from harness.lint.check import lint_file

    output = Output(json_target)
    results = []
    fatal = False
    for path in files:
        findings = lint_file(path)
        for finding in findings:
            kind = "refused" if finding.fatal else "warning"
            text = f"{path}:{finding.line}: {kind} [{finding.rule}] {finding.message}"
            output.console.print(text, markup=False, soft_wrap=True)
        fatal |= any(finding.fatal for finding in findings)
        results.append({"file": str(path), "findings": [asdict(finding) for finding in findings]})
    clean = sum(not result["findings"] for result in results)
    output.console.print(f"{clean} of {len(results)} files without findings", markup=False)
    output.json(results[0] if len(results) == 1 else results)
    return 1 if fatal else 0
