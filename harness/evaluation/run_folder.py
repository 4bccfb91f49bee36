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
_PACKAGE = Path(__file__).resolve().parents[1]
# All of the harness that the child needs; the problem's truth and the rest of the harness stay out of its reach.
_CHILD_MODULES = (
    "__init__.py",
    "errors.py",
    "evaluation/__init__.py",
    "evaluation/cpu_redirect.py",
    "evaluation/gpu_clock.py",
    "evaluation/interpreter.py",
    "evaluation/interpreter_dots.py",
    "evaluation/interpreter_types.py",
    "evaluation/poison.py",
    "evaluation/process_tree.py",
    "evaluation/profile_driver.py",
    "evaluation/protocol.py",
    "evaluation/shared_memory.py",
    "evaluation/shield.py",
    "evaluation/worker.py",
    "inspection/__init__.py",
    "inspection/driver.py",
    "inspection/pretence.py",
)


@dataclass(frozen=True)
class RunFolder:
    """path: the working directory. library: where the child finds its part of the harness, and nothing else.

    extensions: where torch builds the submission's extensions.
    """

    path: Path
    library: Path
    extensions: Path


@contextmanager
def run_folder(problem: Problem, variant: Variant) -> Iterator[RunFolder]:
    """Lay out the task's files (the evaluator left out) with the submission, and remove them afterwards."""
    with tempfile.TemporaryDirectory(prefix="harness-run-") as name, _extensions(problem, variant) as extensions:
        path, library = Path(name) / "run", Path(name) / "library"
        path.mkdir()
        _copy_library(library / "harness")
        for file_name, source in problem.task.files.items():
            if file_name == problem.task.main or source is None or not source.is_file():
                continue
            shutil.copyfile(source, path / file_name)
        (path / SUBMISSION_FILE).write_text(variant.source, encoding="utf-8")
        yield RunFolder(path, library, extensions)


def _copy_library(target: Path) -> None:
    for module in _CHILD_MODULES:
        (target / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_PACKAGE / module, target / module)
    shutil.copytree(
        _PACKAGE / "aiter_stand_in", target / "aiter_stand_in", ignore=shutil.ignore_patterns("__pycache__")
    )


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
