"""A Triton kernel that only reads: what its time gives is the bandwidth that a decode kernel is held against."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def _read(values_ptr, sums_ptr, VALUES: tl.constexpr):
    """Each program reads `VALUES` neighbouring int32 and writes their sum, so that no load can be left out."""
    program = tl.program_id(0)
    offsets = program.to(tl.int64) * VALUES + tl.arange(0, VALUES)
    tl.store(sums_ptr + program, tl.sum(tl.load(values_ptr + offsets)))


def reader(values: torch.Tensor, values_per_program: int) -> Callable[[], None]:
    """A call that reads `values`, (n,) int32 with n a multiple of `values_per_program`, on the current GPU."""
    programs = values.numel() // values_per_program
    sums = torch.empty(programs, dtype=torch.int32, device=values.device)
    return lambda: _read[(programs,)](values, sums, VALUES=values_per_program, num_warps=8)
