"""Keeps the parent's memory, environment and command line from the process that runs a submission (Linux).

The parent makes itself undumpable, so that reading its memory, environment or descriptors through /proc needs the
right to trace; the child gives that right up before it imports anything, for good, root or not. Elsewhere than on
Linux, or where the kernel refuses, these do nothing. A container or another user is the only full protection.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
# Tracing; and two more that also open another process's maps and environment (the third since Linux 6.13). Containers
# run GPU code without any of them.
_TRACING_CAPABILITIES = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
_CAPABILITY_VERSION_3 = 0x20080522


def hide_from_children(replacement: str = "harness") -> None:
    """In the parent: close /proc to others, and blank the command line, which may hold a secret seed."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    with suppress(OSError, ValueError, IndexError):
        # Fields 48 and 49 of proc(5)'s stat: where the arguments begin and end. The command comes before, in brackets.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[45]), int(fields[46])
        if 0 < begin < end:
            text = replacement.encode()[: end - begin - 1]
            ctypes.memmove(begin, text + bytes(end - begin - len(text)), end - begin)


def give_up_tracing() -> None:
    """In the child: drop the capabilities to look into other processes, from every set they could come back from."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Two halves, of 32 capabilities each, of the effective, permitted and inheritable sets.
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) != 0:
        return
    for capability in _TRACING_CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        half, bit = divmod(capability, 32)
        for index in range(3 * half, 3 * half + 3):
            sets[index] &= ~(1 << bit) & 0xFFFFFFFF
    libc.capset(header, sets)
