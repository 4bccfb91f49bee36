"""The child that inspects: calls the submission with Triton's launches replaced by compiling for the target.

python -m harness.inspection.driver REQUEST ANSWER, in a run folder. Nothing of a kernel is executed.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.evaluation.process_tree import die_with_parent
from harness.evaluation.protocol import TensorSpec, rebuild
from harness.evaluation.shield import give_up_tracing
from harness.inspection.pretence import AsIfOn, shared_memory_limit

# What changes a kernel's code besides its constants, warps and stages.
_OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "schedule_hint", "maxnreg", "num_ctas", "launch_cooperative_grid")


class Recorder:
    """Compiles each launch as Triton would on the target, and keeps what came of it.

    A tuner compiles every configuration, by its own code, hooks and refusals included, and the first that fits is then
    launched: without a GPU none is faster than another.
    """

    def __init__(self, target: str) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("hip", target, 64) if target.startswith("gfx") else GPUTarget("cuda", 90, 32)
        self._shared_limit = shared_memory_limit(target)
        self._tuning = False
        self.launches: list[dict[str, Any]] = []
        self.kernels: dict[str, dict[str, Any]] = {}
        self.shape = ""

    def install(self) -> None:
        """Put the recorder in the place of Triton's driver and launcher, for the rest of the process."""
        import triton
        from triton.runtime import jit
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.errors import OutOfResources

        triton.runtime.driver.set_active(_Driver(self._target))
        original = jit.JITFunction.run

        def compile_only(function: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            kernel = original(function, *args, grid=grid, warmup=True, **options)
            if hasattr(kernel, "result"):
                kernel = kernel.result()
            too_much = self._tuning and kernel.metadata.shared > self._shared_limit
            role = "skipped" if too_much else "trial" if self._tuning else "launch"
            self._keep(function, kernel, grid, args, options, role)
            if too_much:
                # What Triton raises on loading it; its tuner then takes another configuration.
                raise OutOfResources(kernel.metadata.shared, self._shared_limit, "shared memory")
            return kernel

        def bench(call: Callable[[], Any], quantiles: Any = None) -> list[float]:
            self._tuning = True
            try:
                call()
            finally:
                self._tuning = False
            return [1.0, 1.0, 1.0]

        def tune(tuner: Any, key: Any, configs: Any, run: Callable[[], Any]) -> bool:
            # Nothing goes to Triton's cache of timings: a real run would take these for its own.
            run()
            return False

        jit.JITFunction.run = compile_only
        Autotuner.do_bench = property(lambda tuner: bench)
        Autotuner.check_disk_cache = tune

    def _keep(self, function: Any, kernel: Any, grid: Any, args: Any, options: dict[str, Any], role: str) -> None:
        binder = function.device_caches[0][4]
        bound = binder(*args, **options)[0]
        size = grid(bound) if callable(grid) else grid
        constants = {
            parameter.name: _plain(bound[parameter.name]) for parameter in function.params if parameter.is_constexpr
        }
        scalars = {
            name: value for name, value in bound.items() if isinstance(value, int | float) and name not in constants
        }
        self.kernels.setdefault(
            kernel.hash,
            {
                "name": function.__name__, "constants": constants, "warps": kernel.metadata.num_warps,
                "stages": kernel.metadata.num_stages, "shared": kernel.metadata.shared,
                "line": getattr(function, "starting_line_number", None),
                "types": {name: str(kind) for name, kind in kernel.src.signature.items() if kind != "constexpr"},
                "options": {name: _plain(getattr(kernel.metadata, name, 0)) for name in _OPTIONS
                            if getattr(kernel.metadata, name, 0) not in (0, None, "none")},
                "assembly": kernel.asm.get("amdgcn") or kernel.asm.get("ptx"), "cubin": _hex(kernel.asm.get("cubin")),
            },
        )  # fmt: skip
        tiles = [_tile_bytes(value) for value in bound.values() if hasattr(value, "block_shape")]
        self.launches.append(
            {
                "kernel": kernel.hash, "shape": self.shape, "grid": list(size), "scalars": scalars, "tiles": tiles,
                "role": role,
            }
        )  # fmt: skip


class _Driver:
    """Triton's driver for a device that is not here."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda


def _tile_bytes(descriptor: Any) -> int:
    """Of whole rows of a tensor descriptor, as many as its block has."""
    return descriptor.block_shape[0] * descriptor.shape[-1] * descriptor.base.element_size()


def _plain(value: Any) -> Any:
    value = getattr(value, "value", value)
    return value if isinstance(value, bool | int | float | str | type(None)) else str(value)


def _hex(binary: bytes | None) -> str | None:
    return None if binary is None else binary.hex()


def _tensors(described: dict[str, Any]) -> list[torch.Tensor]:
    """Real tensors of the described kinds: memory that is only touched where there are values."""
    tensors = []
    for raw, values in zip(described["specs"], described["values"], strict=True):
        spec = TensorSpec.from_json({**raw, "on_gpu": False})
        tensor = spec.empty()
        if values is not None:
            tensor.copy_(torch.tensor(values, dtype=tensor.dtype).view(tensor.shape))
        elif tensor.numel() == 1:
            tensor.fill_(1)
        tensors.append(tensor)
    return tensors


def _stand_in_for_aiter() -> bool:
    """Put the stand-in in aiter's place, its kernels doing nothing; whether the submission mentions aiter at all."""
    if b"aiter" not in Path("submission.py").read_bytes():
        return False
    from harness import aiter_stand_in

    aiter_stand_in.install()
    for module in (sys.modules["aiter"], sys.modules["aiter.mla"]):
        for name in ("mla_decode_stage1_asm_fwd", "mla_reduce_v1", "mla_decode_fwd"):
            if hasattr(module, name):
                setattr(module, name, _idle(getattr(module, name)))
    return True


def _idle(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same signature that does nothing."""

    @functools.wraps(function)
    def idle(*positional: Any, **named: Any) -> None:
        return None

    return idle


def main() -> None:
    """Inspect every shape of the request and write the answer; what a shape raises is in it."""
    die_with_parent()
    give_up_tracing()
    request, answer = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    sys.argv[:] = ["submission.py"]
    sys.path.insert(0, str(Path.cwd()))
    mode, recorder = AsIfOn(request["target"]), Recorder(request["target"])
    found: dict[str, Any] = {"failures": {}}
    mode.pretend()
    recorder.install()
    with mode:
        try:
            found["stand_in"] = _stand_in_for_aiter()
            submission = importlib.import_module("submission")
        except BaseException as error:
            found["failures"][""] = _described(error)
            request["shapes"] = []
        for described in request["shapes"]:
            recorder.shape = described["label"]
            try:
                submission.custom_kernel(rebuild(described["skeleton"], _tensors(described)))
            except BaseException as error:
                found["failures"][described["label"]] = _described(error)
    answer.write_text(json.dumps({**found, "kernels": recorder.kernels, "launches": recorder.launches}))


def _described(error: BaseException) -> str:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("submission.py")
    ]
    where = f"line {lines[-1]}: " if lines else ""
    # A compiler's error shows the source between its place and what is wrong.
    text = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = text[0] if len(text) == 1 else " … ".join((text[0], text[-1])) if text else ""
    return f"{where}{type(error).__name__}: {said}"[:400]


if __name__ == "__main__":
    main()
