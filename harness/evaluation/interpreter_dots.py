"""Matrix products in Triton's interpreter, which takes bfloat16 operands for integers and knows no `tl.dot_scaled`.

Seen in Triton 3.6: bfloat16 is held as its 16 bits there, and `tl.dot` multiplies the bits. `tl.dot_scaled` raises
AttributeError. Both are given here what the matrix instructions give up to the order of their sums: every operand is
exact in float32, and products and sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.evaluation.interpreter_types import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

# Values of the 16 codes of e2m1, the sign in the top bit. Source: OCP Microscaling Formats v1.0, section 5.3.3.
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
_SCALE_BIAS = 127  # of e8m0, whose 255 is NaN; the same source, section 5.4.1


def with_float_dots(original: Callable[..., Any]) -> Callable[..., Any]:
    """`InterpreterBuilder.create_dot`: floating-point operands widened to float32, integers as before."""

    def create_dot(builder: Any, a: Any, b: Any, d: Any, *precision: Any) -> Any:
        if not (a.dtype.is_floating() and b.dtype.is_floating()) or a.dtype.is_fp64():
            return original(builder, a, b, d, *precision)
        return _sum_of_products(widened(a), widened(b), d)

    return create_dot


def with_scaled_dots(original: Callable[..., Any] | None) -> Callable[..., Any]:
    """`InterpreterBuilder.create_dot_scaled`, with every format and packing that `tl.dot_scaled` takes."""
    from triton._C.libtriton import ir

    e2m1 = ir.ScaleDotElemTypeTY.E2M1

    def create_dot_scaled(
        builder: Any, lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any,
        fast_math: bool, lhs_k_pack: bool, rhs_k_pack: bool, acc: Any,
    ) -> Any:  # fmt: skip
        a = unpacked(lhs.data, -1 if lhs_k_pack else -2) if lhs_format == e2m1 else widened(lhs)
        b = unpacked(rhs.data, -2 if rhs_k_pack else -1) if rhs_format == e2m1 else widened(rhs)
        if lhs_scale is not None:
            a = a * spread_scales(lhs_scale, a.shape[-1])
        if rhs_scale is not None:
            b = b * spread_scales(rhs_scale, b.shape[-2]).swapaxes(-1, -2)
        return _sum_of_products(a, b, acc)

    return create_dot_scaled


def with_format_names(original: Callable[..., Any]) -> Callable[..., Any]:
    """`TritonSemantic.dot_scaled`, which asks for formats as constants; interpreted code gives plain names."""

    def dot_scaled(semantic: Any, *operands: Any) -> Any:
        from triton.language import constexpr

        return original(semantic, *(constexpr(each) if isinstance(each, str) else each for each in operands))

    return dot_scaled


def widened(handle: Any) -> np.ndarray:
    """A tensor of the interpreter in float32, from its bits where numpy has no type for it."""
    import numpy as np

    dtype = numpy_dtype(handle.dtype.scalar.name)
    data = handle.data if dtype is None else np.ascontiguousarray(handle.data).view(dtype)
    return data.astype(np.float32)


def unpacked(packed: np.ndarray, axis: int) -> np.ndarray:
    """float32 values of e2m1 pairs, two a byte, the low half first, twice as long along `axis` (-1 or -2)."""
    import numpy as np

    codes = np.stack([packed & 0xF, packed >> 4], axis=axis + packed.ndim + 1)
    shape = list(packed.shape)
    shape[axis] *= 2
    return np.array(_E2M1, np.float32)[codes.reshape(shape)]


def spread_scales(scale: Any, size: int) -> np.ndarray:
    """(…, rows, groups) scales in float32, each repeated over its group: (…, rows, size).

    Bytes are e8m0; a floating-point scale (e4m3, as in NVFP4) is taken as it is.
    """
    import numpy as np

    if scale.dtype.scalar.is_floating():
        values = widened(scale)
    else:
        codes = scale.data.view(np.uint8)
        values = np.where(codes == 255, np.nan, np.exp2(codes.astype(np.float64) - _SCALE_BIAS)).astype(np.float32)
    return np.repeat(values, size // values.shape[-1], axis=-1)


def _sum_of_products(a: np.ndarray, b: np.ndarray, acc: Any) -> Any:
    import numpy as np
    from triton.runtime.interpreter import TensorHandle

    with np.errstate(over="ignore", invalid="ignore"):
        total = np.matmul(a, b, dtype=np.float32) + acc.data.astype(np.float32)
    return TensorHandle(total.astype(acc.data.dtype), acc.dtype.scalar)
