"""numpy's types for the floating-point types of Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# Triton's names of the types whose casts are mended, and the ml_dtypes types that round rightly.
# fp8e4b15 is Triton's own, has no hardware and no torch type, and keeps Triton's conversion.
ML_DTYPES = {
    "fp8e4nv": "float8_e4m3fn",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5": "float8_e5m2",
    "fp8e5b16": "float8_e5m2fnuz",
    "bf16": "bfloat16",
}
NUMPY_DTYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}


def numpy_dtype(triton_name: str) -> np.dtype | None:
    """The numpy type with the bits of a Triton type (`fp8e4nv`, `bf16`, `fp16`, …), or None where there is none."""
    import ml_dtypes
    import numpy as np

    if triton_name in ML_DTYPES:
        return np.dtype(getattr(ml_dtypes, ML_DTYPES[triton_name]))
    return np.dtype(NUMPY_DTYPES[triton_name]) if triton_name in NUMPY_DTYPES else None
