"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

problem_option = click.option(
    "--problem",
    "problem_root",
    type=click.Path(path_type=Path),
    default=None,
    help="Problem folder in the platform's format [default: the nearest folder with a task.yml].",
)
json_option = click.option(
    "--json",
    "json_target",
    metavar="FILE",
    default=None,
    help="Write the result as JSON to FILE; - is standard output.",
)
shapes_option = click.option("--shapes", default=None, metavar="LIST", help="Only these shapes, e.g. S2,S8 or 4x8192.")
device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cuda|hip|cpu", help="Where kernels run."
)


def nearest_problem(root: Path | None) -> Path:
    """`root`, or the nearest folder upwards from here that has a task.yml; here, where there is none."""
    if root is not None:
        return root
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "task.yml").is_file():
            return folder
    return here


def declaration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--kv` and `--rounding`: what a file reads that declares nothing itself."""
    command = click.option(
        "--rounding", default=None, metavar="f16|fp8", help="What q or P is rounded to, for files that declare nothing."
    )(command)
    return click.option(
        "--kv",
        default=None,
        metavar="FORMAT",
        help="What a file reads that declares nothing: fp8, bf16, mxfp4 or keys=…,values=….",
    )(command)


def declaration_of(kv: str | None, rounding: str | None) -> dict[str, Any] | None:
    """The declaration that the options spell, or None where neither was given.

    Raises click.UsageError for a form of `--kv` that is neither a word nor keys=…,values=….
    """
    if kv is None and rounding is None:
        return None
    declared: dict[str, Any] = {} if rounding is None else {"rounding": rounding}
    if kv is not None and "=" in kv:
        pairs = dict(part.split("=", 1) for part in kv.split(",") if "=" in part)
        if set(pairs) != {"keys", "values"}:
            raise click.UsageError(f"--kv {kv}: expected a format, or keys=FORMAT,values=FORMAT")
        declared["kv"] = pairs
    elif kv is not None:
        declared["kv"] = kv
    return declared
