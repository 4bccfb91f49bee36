"""The kinds of a shape's inputs, found out without making them: a long case's KV is gigabytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.errors import BrokenTask
from harness.evaluation.protocol import TensorSpec, flatten
from harness.problem.problem import Problem, Shape

# Integers that a submission may look at on the host: row pointers and lengths. Longer ones are data.
_SMALL = 1 << 20
_CREATE = frozenset(
    {torch.randn, torch.rand, torch.empty, torch.zeros, torch.ones, torch.full, torch.tensor, torch.randint,
     torch.normal, torch.empty_strided, torch.arange, torch.linspace, torch.eye, torch.randperm}
)  # fmt: skip


class _WithoutValues(TorchFunctionMode):
    """Floating-point tensors are made on the `meta` device, which has shapes and no values; small integers are real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _CREATE and not self._is_small_integer(func, args, kwargs):
            kwargs["device"] = "meta"
            kwargs.pop("generator", None)
        elif "device" in kwargs and str(kwargs["device"]).startswith("cuda"):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)

    @staticmethod
    def _is_small_integer(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        plain = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
        if kwargs.get("dtype") not in (torch.int32, torch.int64, None):
            return False
        if func in (torch.arange, torch.tensor):
            made = func(*args, **plain)
            return not made.dtype.is_floating_point and made.numel() < _SMALL
        return kwargs.get("dtype") in (torch.int32, torch.int64)


def describe_inputs(problem: Problem, shape: Shape, declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The nested input of a shape as JSON: its skeleton, each tensor's kind, and the values of small integers.

    bytes_needed: what a kernel must move for the declared inputs, None where the problem does not say. Raises
    BrokenTask where the problem's generate_input cannot run without values.
    """
    reference = problem.load_module("reference")
    arguments: Mapping[str, Any] = shape.case.arguments
    try:
        with _WithoutValues():
            data = reference.generate_input(**arguments)
        leaves: list[torch.Tensor] = []
        skeleton = flatten(data, leaves)
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BrokenTask(f"{problem.root}: generate_input gives no inputs without their values ({message})") from None
    return {
        "skeleton": skeleton,
        "specs": [TensorSpec.of(leaf).to_json() for leaf in leaves],
        "values": [leaf.tolist() if leaf.device.type == "cpu" and leaf.numel() < _SMALL else None for leaf in leaves],
        "bytes_needed": _bytes_needed(problem, data, declaration),
    }


def _bytes_needed(problem: Problem, data: Any, declaration: Mapping[str, Any]) -> int | None:
    if not (problem.root / "truth.py").is_file():
        return None
    asked = getattr(problem.load_module("truth"), "bytes_needed", None)
    try:
        return None if asked is None else int(asked(data, declaration))
    except ValueError:
        # A file that declares nothing: what it reads is not known without running it.
        return None
