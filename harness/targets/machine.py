"""The device that submissions run on here, and the platform's `Running on` facts."""

from __future__ import annotations

import platform
import socket
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from harness.errors import MissingCapability, UnknownName

DEVICES = ("auto", "cuda", "hip", "cpu")


@dataclass(frozen=True)
class Machine:
    """The platform's `Running on` block, and what timings depend on besides.

    kind: `cuda`, `hip`, or `cpu (interpreted)`: how kernels run here. target: `sm_90`, `gfx950`, … of the GPU,
    `portable` without one.
    """

    kind: str
    gpu: str
    cpu: str
    device_count: int
    runtime: str
    platform: str
    torch: str
    hostname: str
    triton: str = ""
    driver: str = ""
    target: str = "portable"

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU and can be timed."""
        return self.kind in ("cuda", "hip")


def open_machine(device: str = "auto") -> Machine:
    """The machine with the device asked for.

    Raises UnknownName for a device that does not exist and MissingCapability for one that is not here.
    """
    if device not in DEVICES:
        raise UnknownName("device", device, DEVICES)
    import torch

    present = "cpu"
    if torch.cuda.is_available():
        present = "hip" if torch.version.hip is not None else "cuda"
    if device in ("cuda", "hip") and device != present:
        raise MissingCapability(
            f"--device {device}: this machine has no such GPU (found: {present}); "
            "use --device auto, or --device cpu for correctness without timings"
        )
    return _gpu_machine(present) if device != "cpu" and present != "cpu" else _cpu_machine()


def _gpu_machine(kind: str) -> Machine:
    import torch

    properties = torch.cuda.get_device_properties(0)
    sm = f"sm_{properties.major}{properties.minor}"
    target = properties.gcnArchName.split(":")[0] if kind == "hip" else sm
    return Machine(
        kind=kind,
        gpu=torch.cuda.get_device_name(),
        device_count=torch.cuda.device_count(),
        runtime="ROCm" if kind == "hip" else "CUDA",
        driver=_driver_version(),
        target=target,
        **_host_facts(),
    )


def _cpu_machine() -> Machine:
    return Machine(kind="cpu (interpreted)", gpu="", device_count=1, runtime="", **_host_facts())


def _host_facts() -> dict[str, str]:
    import torch

    return {
        "cpu": cpu_model(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "hostname": socket.gethostname(),
        "triton": package_version("triton") or "",
    }


def package_version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def cpu_model() -> str:
    """The processor's model name as Linux gives it, its vendor where that is unknown, or ''."""
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts[key.strip()] = value.strip()
    model = facts.get("model name", "")
    return facts.get("vendor_id", "") if model == "unknown" else model


def _driver_version() -> str:
    for path in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
        with suppress(OSError):
            return Path(path).read_text().splitlines()[0].strip()
    return ""
