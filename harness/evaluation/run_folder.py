"""The folder a submission runs in: the problem's files beside it, and a build cache that cannot be left locked."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.problem.problem import Problem
from harness.problem.variant import Variant

SUBMISSION_FILE = "submission.py"


@dataclass(frozen=True)
class RunFolder:
    """`path`: the working directory. `extensions`: where torch builds the submission's extensions."""

    path: Path
    extensions: Path


@contextmanager
def run_folder(problem: Problem, variant: Variant) -> Iterator[RunFolder]:
    """Lay out the task's files (the evaluator left out) with the submission, and remove them afterwards."""
    with tempfile.TemporaryDirectory(prefix="harness-run-") as name, _extensions(problem, variant) as extensions:
        path = Path(name)
        for file_name, source in problem.task.files.items():
            if file_name == problem.task.main or source is None or not source.is_file():
                continue
            shutil.copyfile(source, path / file_name)
        (path / SUBMISSION_FILE).write_text(variant.source, encoding="utf-8")
        yield RunFolder(path, extensions)


@contextmanager
def _extensions(problem: Problem, variant: Variant) -> Iterator[Path]:
    """A build cache kept by source hash, for one run at a time; a second run gets a throw-away one."""
    kept = problem.root / ".harness" / "extensions" / variant.source_hash[:16]
    try:
        kept.mkdir(parents=True, exist_ok=True)
        guard = (kept.parent / f"{kept.name}.guard").open("w")
    except OSError:
        guard = None
    try:
        if guard is None or not _try_lock(guard):
            with tempfile.TemporaryDirectory(prefix="harness-extensions-") as name:
                yield Path(name)
            return
        sweep_half_built(kept)
        try:
            yield kept
        finally:
            sweep_half_built(kept)
    finally:
        if guard is not None:
            guard.close()


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep_half_built(extensions: Path) -> None:
    """Remove every extension whose build left its lock behind: the next build would wait for that lock forever.

    torch.utils.cpp_extension marks a build with a file named `lock` in the extension's folder.
    """
    for lock in list(extensions.rglob("lock")):
        shutil.rmtree(lock.parent, ignore_errors=True)
