"""Where the stand-in is found as aiter, and that it cannot be taken for it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import harness.aiter_stand_in as stand_in
from harness.aiter_stand_in import api
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


def test_the_signatures_are_the_pins() -> None:
    stage1 = list(inspect.signature(api.mla_decode_stage1_asm_fwd).parameters)
    assert stage1[:4] == ["Q", "KV", "qo_indptr", "kv_indptr"]
    assert stage1[-5:] == ["splitData", "splitLse", "output", "q_scale", "kv_scale"]
    assert list(inspect.signature(api.mla_reduce_v1).parameters)[5:] == ["max_seqlen_q", "final_output", "final_lse"]
    metadata = list(inspect.signature(api.get_mla_metadata_v1).parameters)
    assert metadata[6:9] == ["work_metadata_ptrs", "work_info_set", "work_indptr"]
    assert metadata[-3:] == ["intra_batch_mode", "dtype_q", "dtype_kv"]


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
