"""Triton."""

import triton
import triton.language as tl

BLOCK = tl.constexpr(64)


@triton.jit
def inner(x, BLOCK: tl.constexpr):
    return x + BLOCK


@triton.autotune(configs=[triton.Config({"TILE": 16}), triton.Config({"TILE": 32})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % BLOCK.value == 0})
@triton.jit
def kernel(x_ptr, n, TILE: tl.constexpr, EVEN: "tl.constexpr"):
    tl.store(x_ptr + tl.arange(0, BLOCK), inner(n, BLOCK=TILE))


def custom_kernel(data):
    jitted = kernel.fn.fn
    return [(each.name, each.is_constexpr) for each in jitted.params], kernel.keys, jitted.fn.__globals__ is not None
