"""Mends Triton's interpreter, which runs Triton kernels on a CPU (TRITON_INTERPRET=1), where it computes wrongly.

Casts. Seen in Triton 3.5, 3.6 and 3.9: `triton.runtime.interpreter._convert_float` rounds by one bit and drops the
carry into the exponent (float32 0.490 becomes e4m3 0.25), truncates subnormal results (0.0068 becomes 0.0059, 0.0017
becomes 0), turns NaN into a number, and float32 to bfloat16 is cut off instead of rounded. About 6 % of the casts of
normal numbers to e4m3 are wrong, so a kernel that is right on a GPU fails on the CPU. All casts of the interpreter,
and the widening of fp8 operands in `tl.dot`, go through that one function; it is replaced here.

What a mended cast gives is what the GPU's conversion instruction gives (NVIDIA `cvt.rn.satfinite`, and AMD's
`v_cvt_pk_fp8_f32` under the mode that Triton sets): round to nearest, ties to even, finite and infinite values past
the largest finite number become that number, NaN stays NaN. torch's cast agrees on every value that does not overflow;
past the largest finite number it gives NaN (fnuz), infinity (e5m2), or depends on torch's version (e4m3fn).

Matrix products. bfloat16 operands are multiplied as integers, and `tl.dot_scaled` is missing: interpreter_dots.py.

Loop bounds. A loop whose bound was loaded from memory raises TypeError in Triton up to 3.6 with numpy 2.4 and later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.errors import MissingCapability
from harness.evaluation.interpreter_dots import with_float_dots, with_format_names, with_scaled_dots
from harness.evaluation.interpreter_types import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

_PLACES = ("_convert_float", "_patch_lang_core", "_patch_lang_tensor", "InterpreterBuilder")


def mend_interpreter() -> None:
    """Mend the casts, the matrix products and the loop bounds of Triton's interpreter in this process.

    Call it in the process that runs the kernels, before the first launch; a second call changes nothing. Raises
    MissingCapability where Triton or ml_dtypes is missing, or where this Triton's interpreter is built otherwise.
    """
    mend_fp8_casts()
    mend_dots()
    mend_loop_bounds()


def mend_fp8_casts() -> None:
    """Make every cast from and to fp8, and float32 to bfloat16, right to the last bit; may be called again.

    Casts with another rounding mode than nearest-even keep Triton's conversion. Raises MissingCapability as
    `mend_interpreter` does.
    """
    interpreter = _interpreter()
    _replace(interpreter, "_convert_float", _rounding_rightly)
    _replace(interpreter, "_patch_lang_core", _naming_fnuz_types)


def mend_dots() -> None:
    """Make `tl.dot` of bfloat16 right and give `tl.dot_scaled`; may be called again.

    Raises MissingCapability as `mend_interpreter` does.
    """
    from triton.language.semantic import TritonSemantic

    builder = _interpreter().InterpreterBuilder
    _replace(builder, "create_dot", with_float_dots)
    _replace(builder, "create_dot_scaled", with_scaled_dots)
    _replace(TritonSemantic, "dot_scaled", with_format_names)


def mend_loop_bounds() -> None:
    """Let a loaded scalar be the bound of a loop under any numpy; may be called again.

    Raises MissingCapability as `mend_interpreter` does.
    """
    _replace(_interpreter(), "_patch_lang_tensor", _indexing_with_one_element)


def cast_bits(values: np.ndarray, source: np.dtype, target: np.dtype) -> np.ndarray:
    """Cast the bits of `values` from `source` to `target` as a GPU does; the result is unsigned, of `values`' shape.

    Source of the saturation: PTX ISA, `cvt` with `.satfinite`; AMD CDNA4 ISA, MODE.FP16_OVFL.
    """
    import ml_dtypes
    import numpy as np

    wide = np.ascontiguousarray(values).view(source)
    if target.itemsize == 1:
        largest = float(ml_dtypes.finfo(target).max)
        # float32 holds every float8, float16 and bfloat16 number, so the one rounding is the last step.
        wide = wide.astype(np.float64 if source.itemsize == 8 else np.float32)
        wide = np.clip(wide, -largest, largest)  # keeps NaN
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(target)
    return narrow.view(f"u{target.itemsize}").reshape(values.shape)


def _interpreter() -> ModuleType:
    try:
        import ml_dtypes  # noqa: F401
        import triton
        from triton.runtime import interpreter
    except ImportError as error:
        raise MissingCapability(
            f"Triton's interpreter cannot be used here: {error}; install triton and ml_dtypes"
        ) from None
    missing = [name for name in _PLACES if not callable(getattr(interpreter, name, None))]
    if missing:
        raise MissingCapability(
            f"Triton {triton.__version__}: its interpreter has no {', '.join(missing)}, where it is mended; "
            "use a Triton from 3.5 to 3.9 for runs without a GPU"
        )
    return interpreter


def _replace(place: Any, name: str, mended: Callable[[Any], Callable]) -> None:
    original = getattr(place, name, None)
    if not hasattr(original, "mended_by_harness"):
        replacement = mended(original)
        if original is not None:
            functools.update_wrapper(replacement, original)
        replacement.mended_by_harness = True
        setattr(place, name, replacement)


def _rounding_rightly(original: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`_convert_float`: raw bits of the input type to raw bits of the output type."""
    from triton._C.libtriton import ir

    nearest_even = ir.ROUNDING_MODE.RTNE

    def convert_float(values: np.ndarray, input_dtype: Any, output_dtype: Any, rounding_mode: Any) -> np.ndarray:
        source, target = numpy_dtype(input_dtype.name), numpy_dtype(output_dtype.name)
        if source is None or target is None or rounding_mode not in (None, nearest_even):
            return original(values, input_dtype, output_dtype, rounding_mode)
        return cast_bits(values, source, target)

    return convert_float


def _naming_fnuz_types(original: Callable[..., None]) -> Callable[..., None]:
    """`_patch_lang_core`, which gives tl.dtype its `to_ir`: taught the two fnuz types that older Tritons leave out."""

    def patch_lang_core(lang: Any, *rest: Any) -> None:
        original(lang, *rest)
        known = lang.dtype.to_ir

        def to_ir(dtype: Any, builder: Any) -> Any:
            if dtype.name in ("fp8e4b8", "fp8e5b16"):
                return getattr(builder, f"get_{dtype.name}_ty")()
            return known(dtype, builder)

        lang.dtype.to_ir = to_ir  # the interpreter puts the compiler's own back after each launch

    return patch_lang_core


def _indexing_with_one_element(original: Callable[..., None]) -> Callable[..., None]:
    """`_patch_lang_tensor`, which gives tensors their `__index__`: a scalar there is an array of one element."""

    def patch_lang_tensor(tensor: Any, *rest: Any) -> None:
        original(tensor, *rest)
        tensor.__index__ = lambda self: self.handle.data.item()

    return patch_lang_tensor
