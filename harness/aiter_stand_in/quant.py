"""aiter's helpers that round a tensor to fp8 with one scale: three families with three scales and divisions.

`per_tensor_quant` is torch, `dynamic_per_tensor_quant` and `static_per_tensor_quant` are HIP kernels, and
`*_per_tensor_quant_fp8_i8` are Triton kernels. Source: aiter f3be04a12a, aiter/ops/quant.py,
csrc/kernels/quant_kernels.cu, aiter/ops/triton/quant/quant.py and the kernels that it calls.
"""

from __future__ import annotations

import torch

from harness.aiter_stand_in import dtypes
from harness.aiter_stand_in.checks import Checks

HALF_TYPES = (torch.bfloat16, torch.float16)
FLOAT_TYPES = (*HALF_TYPES, torch.float32)


@torch.no_grad()
def per_tensor_quant(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    scale_dtype: torch.dtype = dtypes.fp32,
    quant_dtype: torch.dtype = dtypes.i8,
    dtypeMax: float | None = None,  # noqa: N803  (aiter's own name)
) -> tuple[torch.Tensor, torch.Tensor]:
    """x / scale in `quant_dtype`, and the scale, shape (1,): max |x| / the type's largest number where not given.

    x: any shape. Raises TypeError, and StandInError for a type other than aiter.dtypes.fp8.
    """
    checks = Checks.on_device_of("per_tensor_quant", "x", x)
    _check_fp8(checks, "quant_dtype", quant_dtype)
    values = x.to(torch.float32)
    if scale is None:
        scale = values.abs().max() / (dtypeMax or torch.finfo(quant_dtype).max)
    return (values / scale).to(quant_dtype), scale.view(1).to(scale_dtype)


@torch.no_grad()
def dynamic_per_tensor_quant(out: torch.Tensor, input: torch.Tensor, scale: torch.Tensor) -> None:
    """Round `input` into `out` (fp8, as many values) and write `scale` (1,) float32 = max |input| · (1 / 448).

    Multiplies by 1 / scale, so that a tensor of zeros becomes NaN, as in aiter. Raises TypeError and StandInError:
    `input` must be bf16 or fp16, both contiguous.
    """
    checks = Checks.on_device_of("dynamic_per_tensor_quant", "input", input)
    _check_flat(checks, out, input)
    checks.scale("scale", scale)
    inverse_largest = torch.tensor(1.0 / torch.finfo(out.dtype).max, dtype=torch.float32, device=input.device)
    scale.copy_((input.abs().amax().float() * inverse_largest).view(scale.shape))
    _write_scaled(checks, out, input, scale)


@torch.no_grad()
def static_per_tensor_quant(out: torch.Tensor, input: torch.Tensor, scale: torch.Tensor) -> None:
    """Round `input` · (1 / scale) into `out`, fp8. Raises TypeError and StandInError, also for a scale so small that
    values leave the range of fp8 (what the kernel does there is not known)."""
    checks = Checks.on_device_of("static_per_tensor_quant", "input", input)
    _check_flat(checks, out, input)
    _write_scaled(checks, out, input, checks.scale("scale", scale))


@torch.no_grad()
def per_tensor_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype = dtypes.i8,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A fresh fp8 tensor of x's shape and its scale, shape (1,), by the HIP kernels. Raises as they do."""
    checks = Checks.on_device_of("per_tensor_quant_hip", "x", x)
    checks.that(num_rows is None, "num_rows is not supported for per_tensor_quant_hip")
    _check_fp8(checks, "quant_dtype", quant_dtype)
    rounded = torch.empty(x.shape, dtype=quant_dtype, device=x.device)
    if scale is None:
        scale = torch.empty(1, dtype=torch.float32, device=x.device)
        dynamic_per_tensor_quant(rounded, x, scale)
    else:
        static_per_tensor_quant(rounded, x, scale)
    return rounded, scale.view(1)


@torch.no_grad()
def dynamic_per_tensor_quant_fp8_i8(
    qx: torch.Tensor, x_in: torch.Tensor, scale_out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Round x_in (rows, columns) into qx by the larger of max |x_in| / 448 and what `scale_out` (1,) held before.

    The kernel takes an atomic maximum with scale_out and does not clear it: a buffer that is used again without
    a clear keeps the largest scale there ever was. Multiplies by 1 / scale. Returns (qx, scale_out).
    Raises TypeError and StandInError.
    """
    checks = Checks.on_device_of("dynamic_per_tensor_quant_fp8_i8", "x_in", x_in)
    _check_rows(checks, qx, x_in)
    checks.scale("scale_out", scale_out)
    checks.that(not bool(scale_out.isnan().any()), "scale_out holds NaN; clear it, the kernel takes a maximum with it")
    new = x_in.abs().amax().float() / torch.finfo(qx.dtype).max
    scale_out.copy_(torch.maximum(scale_out, new))
    _write_scaled(checks, qx, x_in, scale_out)
    return qx, scale_out


@torch.no_grad()
def static_per_tensor_quant_fp8_i8(qx: torch.Tensor, x_in: torch.Tensor, scale_in: torch.Tensor) -> torch.Tensor:
    """Round x_in (rows, columns) · (1 / scale_in) into qx, fp8; returns qx. Raises as static_per_tensor_quant."""
    checks = Checks.on_device_of("static_per_tensor_quant_fp8_i8", "x_in", x_in)
    _check_rows(checks, qx, x_in)
    _write_scaled(checks, qx, x_in, checks.scale("scale_in", scale_in))
    return qx


@torch.no_grad()
def per_tensor_quant_triton(
    x: torch.Tensor, scale: torch.Tensor | None = None, quant_dtype: torch.dtype = dtypes.i8
) -> tuple[torch.Tensor, torch.Tensor]:
    """A fresh fp8 tensor of x's shape and its scale, shape (1,), by the Triton kernels. Raises as they do."""
    checks = Checks.on_device_of("per_tensor_quant_triton", "x", x)
    _check_fp8(checks, "quant_dtype", quant_dtype)
    rounded = torch.empty(x.shape, dtype=quant_dtype, device=x.device)
    rows, rounded_rows = x.view(-1, x.shape[-1]), rounded.view(-1, x.shape[-1])
    if scale is None:
        scale = torch.zeros(1, dtype=torch.float32, device=x.device)
        dynamic_per_tensor_quant_fp8_i8(rounded_rows, rows, scale)
    else:
        static_per_tensor_quant_fp8_i8(rounded_rows, rows, scale)
    return rounded, scale


def _write_scaled(checks: Checks, out: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> None:
    """values · (1 / scale) in float32, rounded to nearest even into `out`."""
    scaled = values.float() * (1.0 / scale.view(()))
    largest = torch.finfo(out.dtype).max
    # A value that rounds to the largest number is inside; the division may have put it an ulp above.
    beyond = bool((scaled.abs() > largest * (1 + 2**-20)).any())
    checks.that(not beyond, f"values over {largest:g} times the scale: what the kernel makes of them is not known here")
    out.copy_(scaled.clamp(min=-largest, max=largest).to(out.dtype).view(out.shape))


def _check_fp8(checks: Checks, name: str, dtype: torch.dtype) -> None:
    checks.that(dtype == dtypes.fp8, f"{name} is {dtype}; the stand-in rounds to aiter.dtypes.fp8 only")


def _check_flat(checks: Checks, out: torch.Tensor, values: torch.Tensor) -> None:
    """The HIP kernels walk both buffers value by value."""
    checks.tensor("input", values, HALF_TYPES, values.shape)
    checks.that(values.numel() > 0, "input is empty")
    checks.tensor("out", out, dtypes.fp8, (None,) * out.dim())
    checks.that(out.numel() == values.numel(), f"out has {out.numel()} values, expected {values.numel()}")


def _check_rows(checks: Checks, rounded: torch.Tensor, values: torch.Tensor) -> None:
    """The Triton kernels walk both buffers with the row length of x_in, its columns being next to each other."""
    checks.tensor("x_in", values, FLOAT_TYPES, (None, None), contiguous=False)
    checks.that(values.numel() > 0, "x_in is empty")
    checks.tensor("qx", rounded, dtypes.fp8, values.shape, contiguous=False)
    checks.that(values.stride(1) == 1 and rounded.stride(1) == 1, "the last dimension of x_in or qx is not contiguous")
    same = values.stride(0) == rounded.stride(0)
    checks.that(same, f"the rows of qx are {rounded.stride(0)} apart, those of x_in {values.stride(0)}")
