"""Finds and ends everything a process has started, daemons included (Linux; elsewhere only its own group)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 2.0


def adopt_orphans() -> None:
    """Make grandchildren whose parent has died ours, so that they stay within reach."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_tree(root: int, mark: str) -> None:
    """Kill `root` (a group leader), its descendants, and every process with `mark` in its environment.

    Repeats while new ones appear, for two seconds at most. A process that left the group, lost its parent and
    replaced its environment is not found.
    """
    marked = mark.encode()
    seen = {root}
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        # Found before anything is killed: the death of a parent would make its children ours.
        alive = {pid for pid in _members(seen, marked) if not _is_zombie(pid)}
        seen |= alive
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(root, signal.SIGKILL)
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not alive:
            break
        time.sleep(0.01)
    for pid in seen - {root}:
        with suppress(ChildProcessError, OSError):
            os.waitpid(pid, os.WNOHANG)


def _members(known: set[int], marked: bytes) -> set[int]:
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            pid = int(entry.name)
            # The command may hold spaces and parentheses: the fields after its last ')' are state, ppid, …
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if marked in (entry / "environ").read_bytes():
                members.add(pid)
    grown = known | members
    while grown:
        members |= grown
        grown = {pid for pid, parent in parents.items() if parent in members} - members
    return {pid for pid in members if pid in parents and pid != os.getpid()}


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True
