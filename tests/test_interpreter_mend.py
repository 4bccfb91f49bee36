"""Triton's interpreter casts to and from fp8 as torch and the GPU do, once it is mended, and wrongly before."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.errors import MissingCapability
from harness.evaluation import interpreter as mend

ROOT = Path(__file__).resolve().parents[1]
FP8 = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5": torch.float8_e5m2,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
FLOATS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def convert_float() -> Callable:
    """The interpreter's conversion, mended; `inspect.unwrap` gives Triton's own."""
    from triton.runtime import interpreter

    mend.mend_fp8_casts()
    return interpreter._convert_float


def triton_type(name: str):
    import triton.language as tl

    return {
        "fp8e4nv": tl.float8e4nv,
        "fp8e4b8": tl.float8e4b8,
        "fp8e5": tl.float8e5,
        "fp8e5b16": tl.float8e5b16,
        "fp16": tl.float16,
        "bf16": tl.bfloat16,
        "fp32": tl.float32,
    }[name]


def cast(convert: Callable, bits: np.ndarray, source: str, target: str) -> np.ndarray:
    """The bits of the result. bfloat16 and fp8 are raw bits in the interpreter; float16 and float32 are numpy's."""
    from triton._C.libtriton import ir

    values = bits.view({"fp16": np.float16, "fp32": np.float32}.get(source, bits.dtype))
    return convert(values, triton_type(source), triton_type(target), ir.ROUNDING_MODE.RTNE)


def all_values(name: str) -> np.ndarray:
    """The bits of every 16-bit value; of float32 a dense sample: every exponent, and every pattern of the leading
    bits that e5m2 and e4m3 keep or round by, just below, at and just above it."""
    if name != "fp32":
        return np.arange(1 << 16, dtype=np.uint16)
    leading = np.arange(1 << 15, dtype=np.uint32) << 17
    return np.concatenate([leading, leading + 1, leading - 1, leading + 0x8000, leading + 0x1FFFF])


def torch_cast(bits: np.ndarray, source: str, target: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The input and torch's cast of it, clamped to the largest finite number first as the GPU's instruction does."""
    signed = torch.from_numpy(bits.astype(f"i{bits.itemsize}", casting="unsafe"))
    values = signed.view(FLOATS[source])
    largest = torch.finfo(FP8[target]).max
    return values, values.float().clamp(-largest, largest).to(FP8[target])


@pytest.mark.parametrize("target", FP8)
@pytest.mark.parametrize("source", FLOATS)
def test_every_cast_to_fp8_equals_torch(source: str, target: str) -> None:
    bits = all_values(source)
    values, expected = torch_cast(bits, source, target)
    found = torch.from_numpy(cast(convert_float(), bits, source, target)).view(FP8[target])
    nan = values.isnan()
    assert found.float()[nan].isnan().all()
    assert torch.equal(found.view(torch.uint8)[~nan], expected.view(torch.uint8)[~nan])


@pytest.mark.parametrize("target", FP8)
@pytest.mark.parametrize("source", FLOATS)
def test_unmended_casts_to_fp8_are_wrong(source: str, target: str) -> None:
    bits = all_values(source)
    values, expected = torch_cast(bits, source, target)
    usual = (values.float().abs() > 1e-2) & (values.float().abs() < 100)
    found = torch.from_numpy(cast(inspect.unwrap(convert_float()), bits, source, target))
    wrong = (found != expected.view(torch.uint8))[usual].float().mean().item()
    # Carries alone are lost for one mantissa in 16 (e4m3) or 8 (e5m2), so over 3 % of usual numbers.
    assert wrong > 0.03


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FP8)
def test_every_cast_from_fp8_is_exact(source: str, target: str) -> None:
    bits = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(bits).view(FP8[source]).double()
    found = cast(convert_float(), bits, source, target)
    found = torch.from_numpy(found.astype(f"i{found.itemsize}")).view(FLOATS[target]).double()
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found[~expected.isnan()], expected[~expected.isnan()])


def test_float32_to_bfloat16_rounds_to_nearest_even() -> None:
    bits = all_values("fp32")
    values = torch.from_numpy(bits.astype(np.int32)).view(torch.float32)
    expected = values.bfloat16()
    nan = values.isnan()
    mended = torch.from_numpy(cast(convert_float(), bits, "fp32", "bf16").astype(np.int16))
    assert torch.equal(mended[~nan], expected.view(torch.int16)[~nan])
    # The interpreter asks for this cast without a rounding mode, and then cuts off.
    cut = inspect.unwrap(convert_float())(bits.view(np.float32), triton_type("fp32"), triton_type("bf16"), None)
    assert not torch.equal(torch.from_numpy(cut.astype(np.int16))[~nan], expected.view(torch.int16)[~nan])


def test_overflow_saturates_and_nan_stays_nan() -> None:
    values = np.array([449, 1e9, np.inf, -np.inf, np.nan], dtype=np.float32)
    found = torch.from_numpy(cast(convert_float(), values.view(np.uint32), "fp32", "fp8e4nv"))
    found = found.view(torch.float8_e4m3fn).float()
    assert found[:4].tolist() == [448, 448, 448, -448]
    assert found[4].isnan()


def test_transposed_values_are_cast_in_place() -> None:
    import ml_dtypes

    # Small whole numbers are exact in e4m3, so each must come out where it went in.
    values = np.arange(12, dtype=np.float32).reshape(3, 4).T
    found = mend.cast_bits(values, np.dtype(np.float32), np.dtype(ml_dtypes.float8_e4m3fn))
    assert np.array_equal(found.view(ml_dtypes.float8_e4m3fn).astype(np.float32), values)


def test_second_mend_changes_nothing() -> None:
    assert convert_float() is convert_float()


def test_other_interpreter_is_refused_with_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import interpreter

    monkeypatch.delattr(interpreter, "_convert_float")
    with pytest.raises(MissingCapability, match=r"Triton 3\.\d.*has no _convert_float"):
        mend.mend_fp8_casts()


KERNEL = """
import sys
import torch, triton, triton.language as tl
if sys.argv[1] == "mended":
    from harness.evaluation.interpreter import mend_interpreter
    mend_interpreter()

@triton.jit
def round_trip(x_ptr, y_ptr, count_ptr, TYPE: tl.constexpr):
    for i in range(0, tl.load(count_ptr)):
        x = tl.load(x_ptr + i * 256 + tl.arange(0, 256))
        tl.store(y_ptr + i * 256 + tl.arange(0, 256), x.to(TYPE).to(tl.float32))

x = torch.randn(1024, generator=torch.Generator().manual_seed(0))
for triton_type, torch_type in ((tl.float8e4nv, torch.float8_e4m3fn), (tl.float8e4b8, torch.float8_e4m3fnuz),
                                (tl.bfloat16, torch.bfloat16)):
    y = torch.zeros(1024)
    round_trip[(1,)](x, y, torch.tensor([4], dtype=torch.int32), TYPE=triton_type)
    print(int((y != x.to(torch_type).float()).sum()), end=" ")
"""


def run_kernel(tmp_path: Path, how: str) -> subprocess.CompletedProcess:
    """Run KERNEL in a process of its own: Triton decides at its import whether it interprets."""
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.run(
        [sys.executable, str(path), how], env=environment, capture_output=True, text=True, check=False
    )


def test_kernel_with_a_loaded_loop_bound_casts_rightly(tmp_path: Path) -> None:
    done = run_kernel(tmp_path, "mended")
    assert done.stdout.split() == ["0", "0", "0"], done.stderr


def test_the_same_kernel_fails_or_casts_wrongly_without_the_mend(tmp_path: Path) -> None:
    done = run_kernel(tmp_path, "as it is")
    assert done.returncode != 0 or int(done.stdout.split()[0]) > 0


# -- matrix products ----------------------------------------------------------------------------------------------

PRODUCTS = """
import sys
sys.path.insert(0, {root!r})
import torch, triton
import triton.language as tl
from harness.evaluation.interpreter import mend_interpreter
mend_interpreter()
sys.path.insert(0, {folder!r})
import products
products.run()
"""
KERNELS = """
import torch, triton
import triton.language as tl
from reference import dequantize_mxfp4

@triton.jit
def dot(a, b, c, SIZE: tl.constexpr):
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    tl.store(c + i * SIZE + j, tl.dot(tl.load(a + i * SIZE + j), tl.load(b + i * SIZE + j)))

@triton.jit
def dot_scaled(a, a_scale, b, b_scale, c, B_FORMAT: tl.constexpr):
    i, k, j = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 16)
    s = tl.arange(0, 4)
    left = tl.load(a + i[:, None] * 64 + k[None, :])
    left_scale = tl.load(a_scale + i[:, None] * 4 + s[None, :])
    if B_FORMAT == "e2m1":
        right = tl.load(b + k[:, None] + j[None, :] * 64)
        right_scale = tl.load(b_scale + j[:, None] * 4 + s[None, :])
    else:
        right = tl.load(b + tl.arange(0, 128)[:, None] + j[None, :] * 128)
        right_scale = None
    acc = tl.full([16, 16], 1.0, tl.float32)
    out = tl.dot_scaled(left, left_scale, "e2m1", right, right_scale, B_FORMAT, acc)
    tl.store(c + i[:, None] * 16 + j[None, :], out)

def run():
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float32):
        a, b, c = draw(32, 32).to(dtype), draw(32, 32).to(dtype), torch.empty(32, 32)
        dot[(1,)](a, b, c, SIZE=32)
        print(dtype, float((c.double() - a.double() @ b.double()).abs().max()))
    a = torch.randint(-100, 100, (32, 32), generator=generator, dtype=torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32)
    dot[(1,)](a, a, c, SIZE=32)
    print("int8", float((c.double() - a.double() @ a.double()).abs().max()))
    codes = lambda *shape: torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    scales = lambda: torch.randint(120, 134, (16, 4), generator=generator, dtype=torch.uint8)
    a, a_scale, b, b_scale, c = codes(16, 64), scales(), codes(16, 64), scales(), torch.empty(16, 16)
    left = dequantize_mxfp4(a, a_scale, torch.float64)
    dot_scaled[(1,)](a, a_scale, b, b_scale, c, B_FORMAT="e2m1")
    print("e2m1", float((c - 1 - left @ dequantize_mxfp4(b, b_scale, torch.float64).T).abs().max()))
    b = draw(16, 128).to(torch.float8_e4m3fn)
    dot_scaled[(1,)](a, a_scale, b, b, c, B_FORMAT="e4m3")
    print("e4m3", float((c - 1 - left @ b.double().T).abs().max()))
    a_scale[0, 0] = 255
    dot_scaled[(1,)](a, a_scale, b, b, c, B_FORMAT="e4m3")
    print("nan", float(c[0].isnan().all() and not c[1:].isnan().any()))
"""


@pytest.fixture(scope="module")
def product_errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Largest difference from the float64 product of the same numbers, for each kind of operand."""
    folder = tmp_path_factory.mktemp("products")
    (folder / "products.py").write_text(KERNELS)
    program = PRODUCTS.format(root=str(ROOT), folder=str(folder))
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return {line.split()[0]: float(line.split()[1]) for line in answer.stdout.splitlines()}


@pytest.mark.parametrize("operands", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32"])
def test_dot_multiplies_the_numbers_and_not_their_bits(product_errors: dict[str, float], operands: str) -> None:
    # Sums of 32 products of normals, in float32: an error of 32 · 2^-24 · 10 at most, but e5m2's products are larger.
    assert product_errors[f"torch.{operands}"] < 1e-4


def test_dot_of_integers_is_exact(product_errors: dict[str, float]) -> None:
    assert product_errors["int8"] == 0


@pytest.mark.parametrize("operands", ["e2m1", "e4m3"])
def test_dot_scaled_is_the_product_of_the_scaled_numbers(product_errors: dict[str, float], operands: str) -> None:
    # Sums of 128 products reach 10^5 here, where float32's last digit is 2^-7 = 0.008; a wrong code or scale is off by
    # whole numbers.
    assert product_errors[operands] < 0.05


def test_a_scale_of_255_makes_its_row_nan(product_errors: dict[str, float]) -> None:
    assert product_errors["nan"] == 1
