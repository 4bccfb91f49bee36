"""Where the stand-in is found as aiter, and that it cannot be taken for it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from aiter_stand_in_call import DecodeCall

import harness.aiter_stand_in as stand_in
from harness.aiter_stand_in import api, checks, fp4_utils, mla, modules, quant
from harness.errors import HarnessError


@pytest.fixture(autouse=True)
def no_aiter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts without any module of that name, and leaves none behind."""

    for name in imported_parts():
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in imported_parts():
        del sys.modules[name]


def imported_parts() -> list[str]:
    """Names of aiter and its modules that are imported."""
    return [name for name in sys.modules if name == "aiter" or name.startswith("aiter.")]


def write_package(folder: Path, source: str) -> None:
    (folder / "aiter").mkdir()
    (folder / "aiter" / "__init__.py").write_text(source)
    (folder / "aiter" / "part.py").write_text("")


def on_rocm(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Pretend a ROCm torch and put `folder` on the import path."""
    monkeypatch.setattr(torch.version, "hip", "7.1")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()


def test_installed_it_is_what_the_usual_imports_find() -> None:
    stand_in.install()
    namespace: dict = {}
    exec(
        "import aiter\n"
        "from aiter import dtypes, get_mla_metadata_info_v1, get_mla_metadata_v1\n"
        "from aiter import mla_decode_stage1_asm_fwd, mla_reduce_v1\n"
        "from aiter.mla import mla_decode_fwd\n"
        "import aiter.mla\n",
        namespace,
    )
    assert namespace["mla_reduce_v1"] is api.mla_reduce_v1
    assert namespace["mla_decode_fwd"] is namespace["aiter"].mla.mla_decode_fwd
    assert namespace["dtypes"].fp8 == torch.float8_e4m3fn
    assert namespace["dtypes"].bf16 == torch.bfloat16
    assert namespace["dtypes"].fp4x2.itemsize == namespace["dtypes"].fp8_e8m0.itemsize == 1


def test_it_names_itself_everywhere_one_might_look() -> None:
    module = stand_in.install()
    assert "stand-in" in module.__version__ and "not aiter" in module.__version__
    assert "aiter_stand_in" in repr(module) and "aiter_stand_in" in module.__file__
    assert all(stand_in.is_stand_in(part) for part in (module, module.mla, module.dtypes))
    assert module.mla_reduce_v1.__module__.startswith("harness.aiter_stand_in")
    assert "stand-in" in stand_in.NOTICE and "never timed" in stand_in.NOTICE


def test_other_modules_are_not_the_stand_in() -> None:
    assert not stand_in.is_stand_in(torch)
    assert not stand_in.is_stand_in(None)


def test_installing_twice_is_harmless() -> None:
    assert stand_in.install() is stand_in.install()


def test_a_name_that_it_lacks_is_an_attribute_error_that_lists_what_it_has() -> None:
    module = stand_in.install()
    assert not hasattr(module, "gemm_a8w8")
    with pytest.raises(AttributeError, match=r"the aiter stand-in has no 'gemm_a8w8' \(it offers: .*mla_reduce_v1"):
        module.gemm_a8w8  # noqa: B018
    with pytest.raises(ImportError, match=r"harness\.aiter_stand_in"):
        exec("from aiter import gemm_a8w8")


def test_what_the_real_package_has_no_module_for_cannot_be_imported_here_either() -> None:
    stand_in.install()
    for name in ("aiter.dtypes", "aiter.gemm"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_the_modules_that_submissions_import_from_are_found() -> None:
    stand_in.install()
    namespace: dict = {}
    exec(
        "import aiter.ops.triton.quant.quant\n"
        "from aiter.ops.attention import mla_reduce_v1\n"
        "from aiter.ops.quant import per_tensor_quant_hip\n"
        "from aiter.ops.triton.quant import dynamic_per_tensor_quant_fp8_i8\n"
        "from aiter.utility.fp4_utils import dynamic_mxfp4_quant, e8m0_to_f32, mxfp4_to_f32\n"
        "from aiter.utility import dtypes, fp4_utils\n"
        "from aiter.jit.utils.chip_info import get_cu_num, get_gfx\n"
        "from aiter.mla import get_meta_param, _fwd_kernel_stage2_asm\n",
        namespace,
    )
    assert namespace["aiter"].ops.triton.quant.quant.dynamic_per_tensor_quant_fp8_i8
    assert namespace["dtypes"] is api.dtypes
    assert (namespace["get_gfx"](), namespace["get_cu_num"]()) == ("gfx950", 256)
    assert all(stand_in.is_stand_in(module) for name, module in sys.modules.items() if name.startswith("aiter."))


def test_a_module_that_it_lacks_is_refused_by_name_with_those_that_it_has() -> None:
    stand_in.install()
    for name in ("aiter.fused_moe", "aiter.ops.triton.attention.mla_decode_rope", "aiter.ops.gemm_op_a8w8"):
        with pytest.raises(ModuleNotFoundError, match=r"the aiter stand-in has no module aiter\..*it offers: aiter, "):
            importlib.import_module(name)


@pytest.mark.parametrize(
    ("module", "name", "offered"),
    [
        ("aiter.mla", "mla_prefill_fwd", "get_meta_param, mla_decode_fwd"),
        ("aiter.ops.triton.quant", "dynamic_mxfp4_quant", "dynamic_per_tensor_quant_fp8_i8, static"),
        ("aiter.utility.fp4_utils", "f32_to_mxfp4", "dynamic_mxfp4_quant, e8m0_to_f32, mxfp4_to_f32"),
        ("aiter.utility.dtypes", "i64", "bf16, d_dtypes, fp16"),
        ("aiter.jit", "core", "nothing by itself"),
    ],
)
def test_a_name_that_a_module_lacks_is_refused_by_name(module: str, name: str, offered: str) -> None:
    stand_in.install()
    with pytest.raises(AttributeError, match=rf"no '{name}' in {module} \(it offers: {offered}"):
        getattr(sys.modules[module], name)


def test_another_aiter_is_imported_as_usual_after_the_stand_in_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in.install()
    for name in imported_parts():
        monkeypatch.delitem(sys.modules, name)
    write_package(tmp_path, "")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert importlib.import_module("aiter.part").__file__ == str(tmp_path / "aiter" / "part.py")


def test_every_function_that_computes_counts_that_it_was_called() -> None:
    x = torch.ones(2, 64, dtype=torch.bfloat16)
    for compute in (
        lambda: quant.per_tensor_quant(x, quant_dtype=torch.float8_e4m3fn),
        lambda: fp4_utils.dynamic_mxfp4_quant(x),
        lambda: DecodeCall([400]).run(),
        lambda: DecodeCall([400], torch.bfloat16, torch.bfloat16).run_unscheduled(2),
    ):
        before = checks.entries()
        compute()
        assert checks.entries() > before


def test_the_signatures_are_the_pins() -> None:
    stage1 = list(inspect.signature(api.mla_decode_stage1_asm_fwd).parameters)
    assert stage1[:4] == ["Q", "KV", "qo_indptr", "kv_indptr"]
    assert stage1[-5:] == ["splitData", "splitLse", "output", "q_scale", "kv_scale"]
    assert list(inspect.signature(api.mla_reduce_v1).parameters)[5:] == ["max_seqlen_q", "final_output", "final_lse"]
    metadata = list(inspect.signature(api.get_mla_metadata_v1).parameters)
    assert metadata[6:9] == ["work_metadata_ptrs", "work_info_set", "work_indptr"]
    assert metadata[-3:] == ["intra_batch_mode", "dtype_q", "dtype_kv"]
    assert list(inspect.signature(mla.get_meta_param).parameters) == [
        "num_kv_splits", "bs", "total_kv", "nhead", "max_seqlen_q", "dtype",
    ]  # fmt: skip
    merge = list(inspect.signature(mla._fwd_kernel_stage2_asm).parameters)
    assert merge[:6] == ["Mid_O", "Mid_lse", "O", "qo_indptr", "kv_indptr", "num_kv_splits_indptr"]
    assert merge[11:-1] == ["MAYBE_FINAL_OUT", "BATCH_NUM", "BLOCK_DV", "Lv", "mgc"]
    rounding = {
        quant.per_tensor_quant: ["x", "scale", "scale_dtype", "quant_dtype", "dtypeMax"],
        quant.per_tensor_quant_hip: ["x", "scale", "quant_dtype", "num_rows", "num_rows_factor"],
        quant.per_tensor_quant_triton: ["x", "scale", "quant_dtype"],
        quant.dynamic_per_tensor_quant: ["out", "input", "scale"],
        quant.static_per_tensor_quant: ["out", "input", "scale"],
        quant.dynamic_per_tensor_quant_fp8_i8: ["qx", "x_in", "scale_out"],
        quant.static_per_tensor_quant_fp8_i8: ["qx", "x_in", "scale_in"],
        fp4_utils.dynamic_mxfp4_quant: ["x", "scaling_mode", "shuffle"],
        fp4_utils.mxfp4_to_f32: ["x"],
        fp4_utils.e8m0_to_f32: ["scale_e8m0_biased"],
    }
    for function, names in rounding.items():
        assert list(inspect.signature(function).parameters) == names


def test_without_a_rocm_torch_there_is_no_real_aiter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_package(tmp_path, "raise AssertionError('imported')")
    on_rocm(monkeypatch, tmp_path)
    monkeypatch.setattr(torch.version, "hip", None)
    assert stand_in.real_aiter() is None


def test_a_real_aiter_whose_import_fails_counts_as_missing_and_leaves_no_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_package(tmp_path, "import aiter.part\nraise RuntimeError('ROCm version file not found')")
    on_rocm(monkeypatch, tmp_path)
    assert stand_in.real_aiter() is None
    assert not imported_parts()
    assert stand_in.install() is api


def test_another_package_called_aiter_is_not_the_real_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_package(tmp_path, "")
    on_rocm(monkeypatch, tmp_path)
    assert stand_in.real_aiter() is None


def test_it_is_refused_where_the_real_aiter_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_package(tmp_path, "def mla_decode_stage1_asm_fwd(): ...")
    on_rocm(monkeypatch, tmp_path)
    real = stand_in.real_aiter()
    assert real is not None and not stand_in.is_stand_in(real)
    with pytest.raises(HarnessError, match="aiter is usable on this machine"):
        stand_in.install()
    assert sys.modules["aiter"] is real


def test_it_does_not_replace_a_module_that_is_already_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_package(tmp_path, "")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("aiter")
    with pytest.raises(HarnessError, match="already imported as aiter"):
        stand_in.install()
    assert sys.modules["aiter"] is module


def test_once_installed_there_is_no_real_aiter(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install()
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert stand_in.real_aiter() is None


def test_it_needs_nothing_else_of_the_harness() -> None:
    sources = Path(api.__file__).parent.glob("*.py")
    lines = [
        line for path in sources for line in path.read_text().splitlines() if "harness" in line and "import" in line
    ]
    imported = {line.split()[1] for line in lines if line.startswith(("from harness", "import harness"))}
    assert all(name.startswith("harness.aiter_stand_in") or name == "harness.errors" for name in imported)


def test_the_document_names_everything_that_is_offered() -> None:
    document = (Path(__file__).parents[1] / "docs" / "aiter-stand-in.md").read_text()
    places = {name for name, module in modules.MODULES.items() if module.__all__}
    offered = {name for place in places for name in modules.MODULES[place].__all__} - {"StandInError"}
    missing = [name for name in sorted(places | offered) if f"`{name}`" not in document]
    assert missing == []
