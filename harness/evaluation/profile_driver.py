"""What runs under a vendor's profiler: imports the submission, warms it up, marks, and calls it once.

python -m harness.evaluation.profile_driver INPUTS MARK, in a run folder. MARK `range` starts the CUDA profiler's range
before the call, `kernel` launches a kernel whose name the parent looks for.
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import torch

from harness.evaluation.protocol import TensorSpec, as_bytes_view, flatten, rebuild, tensor_from_bytes, tensor_to_bytes

_LENGTH = struct.Struct("!Q")
WARM_CALLS = 5


def write_inputs(path: Path, data: Any, key: tuple[Any, ...] | None) -> None:
    """Inputs as a file: length and text of a JSON header, then the packed bytes of every tensor."""
    leaves: list[torch.Tensor] = []
    skeleton = flatten(data, leaves)
    specs = [TensorSpec.of(leaf) for leaf in leaves]
    header = {"skeleton": skeleton, "specs": [spec.to_json() for spec in specs], "key": key}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        for leaf in leaves:
            file.write(tensor_to_bytes(leaf))


def read_inputs(path: Path) -> tuple[Any, tuple[Any, ...] | None]:
    """The inputs and the shape's key that `write_inputs` wrote, on the devices where they were."""
    with path.open("rb") as file:
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        header = json.loads(file.read(length))
        leaves = [_read_tensor(file, TensorSpec.from_json(raw)) for raw in header["specs"]]
    key = header["key"]
    return rebuild(header["skeleton"], leaves), None if key is None else tuple(key)


def _read_tensor(file: BinaryIO, spec: TensorSpec) -> torch.Tensor:
    tensor = spec.empty()
    as_bytes_view(tensor).copy_(as_bytes_view(tensor_from_bytes(spec, file.read(spec.bytes))))
    return tensor


def main() -> None:
    """Run the calls; whatever the submission raises ends the process with its traceback."""
    inputs, mark = Path(sys.argv[1]), sys.argv[2]
    sys.argv[:] = ["submission.py"]
    data, key = read_inputs(inputs)
    sys.path.insert(0, str(Path.cwd()))
    submission = importlib.import_module("submission")
    kernel = submission.custom_kernel
    if key is not None and hasattr(submission, "entry_for"):
        kernel = submission.entry_for(key)
    for _ in range(WARM_CALLS):
        kernel(data)
    if not torch.cuda.is_available():
        kernel(data)
        return
    torch.cuda.synchronize()
    if mark == "kernel":
        torch.cuda._sleep(1)
    else:
        torch.cuda.cudart().cudaProfilerStart()
    kernel(data)
    torch.cuda.synchronize()
    if mark != "kernel":
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main()
