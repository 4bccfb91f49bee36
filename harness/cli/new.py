"""`harness new`: a variant file to start from."""

from __future__ import annotations

import re
from pathlib import Path

import click

from harness.cli.options import nearest_problem, problem_option
from harness.cli.output import Output, write_file
from harness.errors import FileProblem


@click.command("new", short_help="A new variant file to start from.")
@click.argument("name")
@click.option("--from", "origin", required=True, metavar="VARIANT", help="The variant, or the file, to copy.")
@problem_option
def command(name: str, origin: str, problem_root: Path | None) -> None:
    """Copy VARIANT to variants/NAME.py, ready to be changed, checked and compared with what it came from."""
    from harness.problem.problem import open_problem

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise click.UsageError(f"'{name}' is no variant name: lower-case letters, digits and _ only, e.g. fp8_split_v2")
    problem = open_problem(nearest_problem(problem_root))
    source = problem.variant(origin)
    path = problem.variants_folder / f"{name}.py"
    if path.exists():
        raise FileProblem(f"{path} exists already; choose another name or edit that file")
    write_file(path, source.source if source.source.endswith("\n") else source.source + "\n")
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    Output().console.print(
        f"Wrote {shown}, a copy of {source.name}. Next:\n"
        f"  harness check {shown}\n"
        f"  harness ab {origin} {name}   (needs a GPU)",
        soft_wrap=True,
    )
