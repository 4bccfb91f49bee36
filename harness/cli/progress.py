"""Progress of long work: a bar on a terminal, a line for each finished case elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness.evaluation.result import CaseResult


@contextmanager
def step_progress(console: Console, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yields `update(done, total)`; shows nothing where the console is no terminal."""
    with _bar(console) as progress:
        task = progress.add_task(unit, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def case_progress(console: Console) -> Iterator[Callable[[int, int, CaseResult | None, str], None]]:
    """Yields the listener that `evaluate` takes."""
    with _bar(console) as progress:
        task = progress.add_task("starting", total=None)

        def listen(index: int, count: int, result: CaseResult | None, label: str) -> None:
            progress.update(task, description=label, completed=index + (result is not None), total=count)
            if result is not None and not console.is_terminal:
                console.print(f"[{index + 1}/{count}] {label} {result.status}", markup=False)

        yield listen


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def label_progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Yields `listen(label, step)`; shows the step under way on a terminal and nothing elsewhere."""
    with console.status("starting") if console.is_terminal else nullcontext() as status:

        def listen(label: str, step: str) -> None:
            if status is not None:
                status.update(f"{label}: {step}")

        yield listen
