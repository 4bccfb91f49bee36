"""`harness records`: bring records from one machine to another."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.options import nearest_problem, problem_option
from harness.cli.output import Output, check_writable, write_file


@click.group("records", short_help="Export and import records as JSON lines.")
def command() -> None:
    """Bring records from one machine to another: export on the one with the GPU, import where you decide."""


@command.command("export", short_help="Write every record, a JSON line each.")
@click.argument("file", default="-")
@problem_option
def export(file: str, problem_root: Path | None) -> int:
    """Write every record to FILE as JSON lines; - is standard output."""
    from harness.records.exchange import export_lines
    from harness.records.store import open_store

    output = Output()
    if file != "-":
        check_writable(Path(file))
    root = nearest_problem(problem_root)
    with open_store(root, output.say) as store:
        if file == "-":
            for line in export_lines(store):
                sys.stdout.write(line + "\n")
            return 0
        lines = list(export_lines(store))
    write_file(Path(file), "".join(line + "\n" for line in lines))
    output.console.print(f"Wrote {len(lines):,} records to {file}.", markup=False, soft_wrap=True)
    return 0


@command.command("import", short_help="Take the records of JSON lines.")
@click.argument("files", nargs=-1, required=True)
@problem_option
def take(files: tuple[str, ...], problem_root: Path | None) -> int:
    """Take the records of FILES. A run that is here already is left as it is; a file with a broken line is refused."""
    from harness.errors import FileProblem
    from harness.records.exchange import import_lines
    from harness.records.store import open_store

    output = Output()
    root = nearest_problem(problem_root)
    with open_store(root, output.say) as store:
        for file in files:
            try:
                lines = Path(file).read_text(encoding="utf-8").splitlines()
            except FileNotFoundError:
                raise FileProblem.missing(file) from None
            except (OSError, UnicodeDecodeError) as error:
                raise FileProblem(f"cannot read {file}: {error}") from None
            taken, known = import_lines(store, lines, file)
            output.console.print(
                f"{file}: {taken} runs taken, {known} were here already.", markup=False, soft_wrap=True
            )
    return 0
