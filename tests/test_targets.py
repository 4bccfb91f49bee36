"""What this machine is and what it can do: asked once, said plainly, and refused clearly where it is not there."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.errors import MissingCapability, UnknownName
from harness.targets import capabilities as capabilities_module
from harness.targets.capabilities import capabilities
from harness.targets.machine import cpu_model, open_machine, package_version


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def fake_gpu(monkeypatch):
    """Make torch claim a GPU, of CUDA unless the test says ROCm."""

    def claim(*, hip: str | None = None) -> None:
        properties = SimpleNamespace(major=9, minor=0, gcnArchName="gfx950:sramecc+:xnack-")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.version, "hip", hip)

    return claim


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_without_a_gpu_kernels_are_interpreted_and_nothing_is_timed(without_gpu, device):
    machine = open_machine(device)
    assert machine.kind == "cpu (interpreted)"
    assert (machine.gpu, machine.runtime, machine.target, machine.device_count) == ("", "", "portable", 1)
    assert not machine.on_gpu
    assert (machine.torch, machine.platform) == (torch.__version__, platform.platform())
    assert machine.hostname


@pytest.mark.parametrize("device", ["cuda", "hip"])
def test_a_device_that_is_not_here_is_refused_with_what_to_do(without_gpu, device):
    with pytest.raises(MissingCapability) as caught:
        open_machine(device)
    message = str(caught.value)
    assert message.startswith(f"--device {device}: this machine has no such GPU (found: cpu)")
    assert "--device cpu" in message
    assert "\n" not in message


@pytest.mark.parametrize(("given", "near"), [("gpu", "cpu"), ("CUDA", None), ("cuda0", "cuda"), ("", None)])
def test_an_unknown_device_is_answered_with_the_accepted_ones(given, near):
    with pytest.raises(UnknownName, match=r"accepted: auto, cuda, hip, cpu") as caught:
        open_machine(given)
    assert (f"did you mean {near}?" in str(caught.value)) == (near is not None)


def test_a_cuda_gpu_is_named_by_its_architecture(fake_gpu):
    fake_gpu()
    machine = open_machine()
    assert (machine.kind, machine.gpu, machine.device_count) == ("cuda", "Some GPU", 2)
    assert (machine.runtime, machine.target) == ("CUDA", "sm_90")
    assert machine.on_gpu


def test_a_rocm_gpu_is_named_by_its_architecture_without_its_features(fake_gpu):
    fake_gpu(hip="6.4")
    machine = open_machine("hip")
    assert (machine.kind, machine.runtime, machine.target) == ("hip", "ROCm", "gfx950")
    with pytest.raises(MissingCapability, match=r"--device cuda: .*found: hip"):
        open_machine("cuda")


def test_the_cpu_can_be_asked_for_beside_a_gpu(fake_gpu):
    fake_gpu()
    assert open_machine("cpu").kind == "cpu (interpreted)"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 9575F\nvendor_id\t: AuthenticAMD\n", "AMD EPYC 9575F"),
        ("model name\t: unknown\nvendor_id\t: GenuineIntel\n", "GenuineIntel"),
        ("", ""),
    ],
)
def test_the_processor_is_read_from_linux(monkeypatch, text, model):
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert cpu_model() == model


def test_a_system_without_cpuinfo_has_no_model(monkeypatch):
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert cpu_model() == ""


def test_the_version_of_a_package_that_is_not_installed_is_none():
    assert package_version("no-such-distribution") is None
    assert package_version("click") is not None


def test_every_capability_is_listed_once_and_what_is_missing_has_advice(without_gpu, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = capabilities()
    names = [capability.name for capability in found]
    expected = ["Python", "torch", "Triton", "GPU", "aiter", "C compiler", "GPU compiler", "profilers"]
    assert names == expected
    missing = {capability.name: capability for capability in found if capability.status == "no"}
    assert {"GPU", "C compiler", "GPU compiler", "profilers"} <= set(missing)
    assert all(capability.advice and capability.found for capability in missing.values())


def test_tools_that_are_there_are_shown_by_their_path(without_gpu, monkeypatch):
    there = {"gcc": "/opt/gcc", "hipcc": "/opt/hipcc", "ncu": "/opt/ncu"}
    monkeypatch.setattr(shutil, "which", there.get)
    found = {capability.name: capability for capability in capabilities()}
    for name, path in (("C compiler", "/opt/gcc"), ("GPU compiler", "/opt/hipcc"), ("profilers", "/opt/ncu")):
        assert (found[name].status, found[name].found, found[name].advice) == ("yes", path, "")


def test_a_machine_without_torch_is_told_how_to_get_it(monkeypatch):
    def no_torch(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(capabilities_module, "importlib", SimpleNamespace(import_module=no_torch))
    found = {capability.name: capability for capability in capabilities()}
    assert (found["torch"].status, found["GPU"].status) == ("no", "no")
    assert "No module named 'torch'" in found["torch"].found
    assert "make setup" in found["torch"].advice


def test_an_old_python_is_reported(monkeypatch):
    monkeypatch.setattr(capabilities_module, "sys", SimpleNamespace(version_info=(3, 9, 1)))
    assert capabilities()[0].status == "no"
    assert "3.10" in capabilities()[0].advice
