"""Every error a user can cause, drawn as one tree; `cli` catches the root once.

    HarnessError                one line for the user, exit code 2
    ├── UnknownName             a shape, variant, target, mode or probe that does not exist
    ├── FileProblem             a file or folder is missing, unreadable or not writable
    ├── BrokenTask              task.yml or a case line is not in the platform's format
    ├── BrokenWinners           winners.toml is not what the merge needs
    ├── BrokenSubmission        a submission or variant file cannot be used as it is
    ├── CannotMerge             the merge would change what a variant means
    ├── MissingCapability       this machine lacks a device, package or compiler
    ├── RecordsProblem          records.sqlite cannot be opened, written or read (harness.records.store)
    ├── WorkerFailed            the child that runs a submission died or broke the protocol (exit code 1)
    │   ├── SubmissionError     the submission raised (harness.evaluation.child)
    │   └── DeadlinePassed      it did not answer in time (harness.evaluation.protocol)
    ├── WrongOutput             a timed call gave a wrong output (harness.compare.arm; exit code 1)
    └── ComparisonStopped       an arm of a comparison failed (harness.compare.arm)

A message names what was given, what is accepted and what to do, in one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class HarnessError(Exception):
    """Root of the errors shown to the user as one line; `exit_code` is the process's."""

    exit_code = 2


class UnknownName(HarnessError):
    """A name that is not among the accepted ones; the nearest accepted one is suggested."""

    def __init__(self, kind: str, given: str, accepted: Iterable[str]) -> None:
        accepted = list(accepted)
        near = difflib.get_close_matches(given, accepted, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]}?" if near else ""
        listed = ", ".join(accepted) if accepted else "none"
        super().__init__(f"unknown {kind} '{given}' (accepted: {listed}){hint}")


class FileProblem(HarnessError):
    """A path that cannot be read or written."""

    @classmethod
    def missing(cls, path: Path | str, hint: str = "") -> FileProblem:
        return cls(f"no such file: {path}" + (f"; {hint}" if hint else ""))


class BrokenTask(HarnessError):
    """task.yml, a case line or a problem folder that is not in the platform's format."""


class BrokenWinners(HarnessError):
    """winners.toml that is unreadable or names something that does not exist."""


class BrokenSubmission(HarnessError):
    """A submission file with a syntax error, no `custom_kernel`, or a malformed `VARIANT`."""


class CannotMerge(HarnessError):
    """Two files that cannot become one without changing what they mean."""

    def __init__(self, path: Path | str, line: int | None, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {reason}")


class MissingCapability(HarnessError):
    """This machine lacks what the command needs (a GPU, a package, a compiler)."""


class WorkerFailed(HarnessError):
    """The child process died, hung or answered outside the protocol; the message says how."""

    exit_code = 1
