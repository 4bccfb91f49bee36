"""`harness report`: tables and plots of the records as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import nearest_problem, problem_option
from harness.cli.output import Output, check_writable, write_file


@click.command("report", short_help="Tables and plots of the records, as one HTML file.")
@click.option(
    "--output",
    "output_file",
    type=click.Path(path_type=Path),
    default=None,
    help="Where to write [default: build/report.html].",
)
@problem_option
def command(output_file: Path | None, problem_root: Path | None) -> int:
    """Write one HTML file that needs no network: winners, times against the floor and the peers, A/Bs, history."""
    from harness.assembly.winners import read_winners
    from harness.problem.problem import open_problem
    from harness.records.store import open_store
    from harness.report.html.figures import page_of
    from harness.report.html.render import render

    output = Output()
    problem = open_problem(nearest_problem(problem_root))
    path = output_file or problem.root / "build" / "report.html"
    check_writable(path)
    winners_file = problem.variants_folder / "winners.toml"
    winners = read_winners(winners_file, problem) if winners_file.is_file() else None
    with open_store(problem.root, output.say) as store:
        page = page_of(problem, winners, store)
    write_file(path, render(page))
    output.console.print(f"Wrote {path}: {page.records} timed records.", markup=False, soft_wrap=True)
    return 0
