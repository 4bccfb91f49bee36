"""`harness inspect`: kernels are found by the launches of a real run, compiled as on the target, and judged."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.cli.main import run as harness
from harness.errors import UnknownName
from harness.inspection import inspect as inspect_module
from harness.inspection.inspect import Inspection, inspect_file
from harness.inspection.summary import difference_rows, header_lines
from harness.problem.problem import Problem, open_problem

ROOT = Path(__file__).parents[1]

HEAD = """\
import torch
import triton
import triton.language as tl

VARIANT = {"shapes": "any"}


@triton.jit
def scale(x, y, slope, count, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + i, tl.load(x + i, mask=i < count) * slope + 1, mask=i < count)


"""
PLAIN = (
    HEAD
    + """\
def custom_kernel(data):
    x, config = data
    y = torch.empty_like(x)
    assert x.device.type == "cuda" and x.is_cuda, x.device
    assert (torch.version.hip is None) == (torch.cuda.get_device_capability()[0] == 9 and WARP == 32)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["SIZE"]),)
    scale[grid](x, y, config["slope"], x.numel(), SIZE=64, num_warps=2, num_stages=3)
    return y


WARP = torch.cuda.get_device_properties(0).warp_size
"""
)
TUNED = (
    HEAD
    + """\
tuned = triton.autotune([triton.Config({"SIZE": s}, num_warps=w) for s, w in ((32, 1), (256, 4))], key=["count"])(scale)
chosen = triton.heuristics({"SIZE": lambda args: triton.next_power_of_2(args["count"])})(scale)


def custom_kernel(data):
    x, config = data
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["SIZE"]),)](x, y, config["slope"], x.numel())
    chosen[(1,)](x, y, config["slope"], x.numel())
    return y
"""
)
# Sums of 512 by 128 floats a program: far more registers than there are.
SPILLING = (
    HEAD.replace("def scale(", "def unused(")
    + """\
@triton.jit
def crowded(x, y, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    a = tl.load(x + i[:, None] * SIZE + i[None, :])
    b = tl.load(x + i[None, :] * SIZE + i[:, None])
    for turn in range(8):
        a = a * tl.sum(b, 0)[None, :] + b * turn
        b = b + tl.sum(a, 1)[:, None]
    tl.store(y + i[:, None] * SIZE + i[None, :], a + b)


def custom_kernel(data):
    x, config = data
    crowded[(1,)](x, torch.empty_like(x), SIZE=256, num_warps=1)
    return x
"""
)

# Two configurations of a product, of which the first needs more shared memory than either target has.
CROWDING = """\
import torch
import triton
import triton.language as tl

VARIANT = {"shapes": "any"}


@triton.autotune([triton.Config({'K': 256}, num_stages=4), triton.Config({'K': 64}, num_stages=2)], key=["turns"])
@triton.jit
def multiply(a, b, c, turns, K: tl.constexpr):
    i, k = tl.arange(0, 128), tl.arange(0, K)
    total = tl.zeros((128, 128), tl.float32)
    for turn in range(turns):
        left = tl.load(a + i[:, None] * 4096 + (turn * K + k)[None, :])
        right = tl.load(b + (turn * K + k)[:, None] * 4096 + i[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * 128 + i[None, :], total)


def custom_kernel(data):
    a = torch.empty(4096 * 4096, dtype=torch.float16, device="cuda")
    multiply[(1,)](a, a, torch.empty(128 * 128, device="cuda"), 7)
"""


GLUON = """\
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

VARIANT = {"shapes": "any"}


@gluon.jit
def add_one(x, y, SIZE: gl.constexpr, layout: gl.constexpr):
    i = gl.arange(0, SIZE, layout=layout)
    gl.store(y + i, gl.load(x + i) + 1)


def custom_kernel(data):
    lanes = torch.cuda.get_device_properties(0).warp_size
    y = torch.empty_like(data[0])
    add_one[(1,)](data[0], y, SIZE=32, layout=gl.BlockedLayout([1], [lanes], [1], [0]), num_warps=1)
    return y
"""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier run of the tests found out is not asked."""
    monkeypatch.setattr(inspect_module, "_read", lambda path: None)


def inspected(affine: Problem, source: str, target: str = "gfx950", shapes: str = "S1,S3") -> Inspection:
    affine.variants_folder.mkdir(exist_ok=True)
    path = affine.variants_folder / "planted.py"
    path.write_text(source)
    return inspect_file(affine, affine.variant(str(path)), target, affine.select_shapes(shapes))


@pytest.mark.parametrize("target", ["gfx950", "sm_90"])
def test_a_kernel_is_found_with_the_settings_of_its_launches(affine: Problem, target: str) -> None:
    found = inspected(affine, PLAIN, target)
    assert found.failures == {}
    assert found.passed
    (kernel,) = found.kernels
    assert (kernel.name, kernel.constants, kernel.warps, kernel.stages) == ("scale", {"SIZE": 64}, 2, 3)
    assert [(launch.shape, launch.grid) for launch in kernel.launches] == [("4x8", (1,)), ("16x32", (8,))]
    assert [launch.scalars["count"] for launch in kernel.launches] == [32, 512]
    assert kernel.types == {"x": "*fp32", "y": "*fp32", "slope": "fp32", "count": "i32"}
    assert kernel.facts.matrix == {}
    assert 0 < kernel.facts.registers < 64
    assert kernel.facts.byte_loads == 0


@pytest.mark.parametrize("target", ["gfx950", "sm_90"])
def test_a_gluon_kernel_is_found_as_well(affine: Problem, target: str) -> None:
    found = inspected(affine, GLUON, target, shapes="S1")
    assert found.failures == {}
    (kernel,) = found.kernels
    assert (kernel.name, kernel.constants["SIZE"], kernel.warps) == ("add_one", 32, 1)


def test_every_configuration_of_a_tuner_is_compiled_and_heuristics_are_followed(affine: Problem) -> None:
    found = inspected(affine, TUNED, shapes="S1")
    sizes = [(kernel.constants["SIZE"], kernel.warps) for kernel in found.kernels]
    assert sizes == [(32, 1), (256, 4), (32, 4)]
    roles = [[launch.role for launch in kernel.launches] for kernel in found.kernels]
    assert roles == [["trial", "launch"], ["trial"], ["launch"]]


def test_a_tuner_calls_the_hooks_of_its_configurations_before_each_is_compiled(affine: Problem) -> None:
    hooked = TUNED.replace("num_warps=w)", "num_warps=w, pre_hook=lambda all: SEEN.append(all['SIZE']))")
    source = hooked.replace("tuned =", "SEEN = []\ntuned =").replace(
        "    return y", "    assert SEEN == [32, 256, 32], SEEN"
    )
    assert inspected(affine, source, shapes="S1").failures == {}


def test_a_configuration_that_its_kernel_refuses_is_passed_over_as_triton_does(affine: Problem) -> None:
    refusing = TUNED.replace("    i = tl.program_id", "    tl.static_assert(SIZE > 32)\n    i = tl.program_id")
    found = inspected(affine, refusing.replace("    chosen[", "    0 and chosen["), shapes="S1")
    assert found.failures == {}
    (kernel,) = found.kernels
    assert kernel.constants["SIZE"] == 256
    assert [launch.role for launch in kernel.launches] == ["trial", "launch"]


@pytest.mark.parametrize("target", ["gfx950", "sm_90"])
def test_a_configuration_over_the_shared_memory_is_reported_and_not_chosen(
    affine: Problem, target: str, capsys
) -> None:
    found = inspected(affine, CROWDING, target, shapes="S1")
    too_big, fitting = found.kernels
    assert [launch.role for launch in too_big.launches] == ["skipped"]
    assert any("shared memory, more than" in each for each in too_big.facts.problems)
    assert [launch.role for launch in fitting.launches] == ["trial", "launch"]
    assert found.passed
    path = str(affine.variants_folder / "planted.py")
    assert harness(["inspect", path, "--problem", str(affine.root), "--shapes", "S1", "--target", target]) == 0
    assert "its tuner skips it" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["gfx950", "sm_90"])
def test_a_launch_over_the_shared_memory_fails(affine: Problem, target: str) -> None:
    alone = CROWDING.replace(", triton.Config({'K': 64}, num_stages=2)", "")
    found = inspected(affine, alone, target, shapes="S1")
    assert not found.passed
    assert [kernel.role for kernel in found.kernels] == ["launch"]


def test_no_timing_is_left_for_a_real_tuner(affine: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    inspected(affine, TUNED.replace('key=["count"])', 'key=["count"], cache_results=True)'), shapes="S1")
    assert list((tmp_path / "cache").rglob("*.json")), "the test's cache was not used"
    assert not list((tmp_path / "cache").rglob("*.autotune.json"))


def test_a_kernel_that_spills_is_named_and_fails(affine: Problem, capsys) -> None:
    found = inspected(affine, SPILLING, shapes="S1")
    (kernel,) = found.kernels
    assert kernel.facts.spills and kernel.facts.scratch_bytes
    assert any("spilled" in each for each in kernel.facts.problems)
    path = str(affine.variants_folder / "planted.py")
    assert harness(["inspect", path, "--problem", str(affine.root), "--shapes", "S1"]) == 1
    assert "crowded ({'SIZE': 256}): " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "label", "said"),
    [
        (
            HEAD + "raise OSError('no such library')\n\n\ndef custom_kernel(data):\n    return data\n",
            "",
            "OSError: no such",
        ),
        (HEAD + "def custom_kernel(data):\n    return data[0][99]\n", "4x8", "IndexError"),
        (HEAD + "def custom_kernel(data):\n    scale[(1,)](data[0], data[0], 1.0, 1, SIZE=65)\n", "4x8", "power of 2"),
    ],
)
def test_what_a_file_raises_is_told_with_its_line(affine: Problem, source: str, label: str, said: str) -> None:
    found = inspected(affine, source, shapes="S1")
    assert not found.passed
    assert said in found.failures[label]
    assert found.failures[label].startswith("line ")


def test_a_file_that_ends_its_process_is_one_clear_line(affine: Problem, capsys) -> None:
    affine.variants_folder.mkdir(exist_ok=True)
    path = affine.variants_folder / "planted.py"
    path.write_text("import os\n\n\ndef custom_kernel(data):\n    os._exit(3)\n")
    assert harness(["inspect", str(path), "--problem", str(affine.root)]) == 1
    assert capsys.readouterr().err.splitlines() == ["error: the process that compiles the kernels died: exit code 3"]


def test_an_unknown_target_is_answered_with_the_nearest(affine: Problem) -> None:
    with pytest.raises(UnknownName, match=r"gfx942.*did you mean gfx950"):
        inspected(affine, PLAIN, "gfx942")


def test_two_files_are_set_side_by_side_where_they_differ(affine: Problem) -> None:
    first = inspected(affine, PLAIN, shapes="S1")
    second = inspected(affine, PLAIN.replace("SIZE=64, num_warps=2", "SIZE=128, num_warps=1"), shapes="S1")
    rows = {figure: (a, b) for _, figure, a, b in difference_rows(first, second, {"4x8": "S1"})}
    assert rows["constants"] == ("SIZE 64", "SIZE 128")
    assert rows["warps"] == ("2", "1")
    assert "grid" not in rows
    assert difference_rows(first, first, {"4x8": "S1"}) == []


def test_lines_for_a_header_name_each_kernel_and_its_shapes(affine: Problem) -> None:
    (line,) = header_lines(inspected(affine, PLAIN), {"4x8": "S1", "16x32": "S3"})
    assert line.startswith("scale [S1 S3] 1 or 8 x 2 warps: ")
    assert "0 spilled" in line


def test_the_second_time_is_answered_from_what_was_kept(affine: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    first = inspected(affine, PLAIN)
    monkeypatch.setattr(inspect_module, "_run_child", lambda *arguments: pytest.fail("compiled again"))
    assert inspected(affine, PLAIN) == first


def test_json_has_the_documented_keys(affine: Problem, capsys) -> None:
    affine.variants_folder.mkdir(exist_ok=True)
    (affine.variants_folder / "planted.py").write_text(PLAIN)
    path = str(affine.variants_folder / "planted.py")
    assert harness(["inspect", path, "--problem", str(affine.root), "--shapes", "S1", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "gfx950"
    (kernel,) = found["kernels"]
    assert {"name", "constants", "vgpr", "spills", "lds", "occupancy", "matrix", "byte_loads", "notes"} <= set(kernel)


@pytest.mark.skipif(not version("triton").startswith("3.6."), reason="the plans were chosen with Triton 3.6")
def test_the_submission_fits_gfx950_and_attends_by_fp8_matrix_instructions() -> None:
    problem = open_problem(ROOT)
    found = inspect_file(problem, problem.variant(str(ROOT / "submission.py")), "gfx950", problem.shapes)
    assert found.failures == {}
    assert found.kernels
    for kernel in found.kernels:
        facts = kernel.facts
        assert (facts.spills, facts.scratch_bytes) == (0, 0), kernel.name
        assert facts.shared_bytes <= 160 * 1024, kernel.name
        assert facts.byte_loads == 0, kernel.name
        if kernel.name.startswith("attend"):
            assert any("f8f6f4" in name or "fp8" in name for name in facts.matrix_in_loop), kernel.name
        else:
            assert facts.matrix == {}, kernel.name
    assert {launch.shape for kernel in found.kernels for launch in kernel.launches} == {
        shape.label for shape in problem.shapes
    }
