"""Waits on the device until its nanosecond timer has moved by `spin_ns`, then writes x + 1 (NVIDIA only).

%globaltimer counts nanoseconds and is read by every thread of one warp. Its step is 32 ns on an idle H100-class
device and 1 µs on older ones. Source: NVIDIA, PTX ISA 8.x, special registers.
"""

import torch
import triton
import triton.language as tl

VARIANT = {"shapes": "any", "targets": ["sm_90"], "rounding": "f32"}


@triton.jit
def now_ns():
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def spin(x_ptr, y_ptr, spin_ns, VALUES: tl.constexpr):
    began = now_ns()
    now = began
    while now - began < spin_ns:
        now = now_ns()
    offsets = tl.arange(0, VALUES)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets) + 1)


def custom_kernel(data):
    x, config = data
    y = torch.empty_like(x)
    spin[(1,)](x, y, config["spin_ns"], VALUES=x.numel(), num_warps=1)
    return y
