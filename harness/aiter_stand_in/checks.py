"""Argument checks: those of the real functions, and the ones that the real ones leave out.

The real functions pass bare addresses to a GPU: a wrong size or type there is silent damage. Here it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

FP8_TYPES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)


class StandInError(RuntimeError):
    """A call that the real aiter refuses, would misread, or whose numbers are not known here."""


_entries = 0


def entries() -> int:
    """How often a function of the stand-in has begun to work on tensors in this process; never falls."""
    return _entries


@dataclass(frozen=True)
class Checks:
    """The checks of one call; `function` opens each message, `device` is where every tensor must be."""

    function: str
    device: torch.device

    @classmethod
    def on_device_of(cls, function: str, name: str, tensor: object) -> Checks:
        """Checks for a call, which counts; its leading tensor decides the device. Raises TypeError, StandInError."""
        global _entries
        _entries += 1
        _require_tensor(function, name, tensor)
        if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise StandInError(f"{function}: the aiter stand-in cannot run while a graph is captured; call it eagerly")
        return cls(function, tensor.device)

    def that(self, holds: bool, message: str) -> None:
        """Raise StandInError with `message` unless `holds`."""
        if not holds:
            raise StandInError(f"{self.function}: {message}")

    def tensor(
        self,
        name: str,
        value: object,
        dtypes: torch.dtype | Sequence[torch.dtype],
        shape: Sequence[int | None],
        contiguous: bool = True,
    ) -> torch.Tensor:
        """`value`, a tensor of one of `dtypes` and of `shape` (None: any size), on this device.

        Raises TypeError for what is no tensor and StandInError for the rest.
        """
        _require_tensor(self.function, name, value)
        dtypes = (dtypes,) if isinstance(dtypes, torch.dtype) else tuple(dtypes)
        self.that(value.device == self.device, f"{name} is on {value.device}, expected {self.device}")
        self.that(
            value.dtype in dtypes,
            f"{name} is {_short(value.dtype)}, expected {' or '.join(_short(dtype) for dtype in dtypes)}",
        )
        same_rank = value.dim() == len(shape)
        fits = same_rank and all(want in (None, got) for want, got in zip(shape, value.shape, strict=True))
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        self.that(fits, f"{name} has shape {tuple(value.shape)}, expected ({wanted})")
        self.that(not contiguous or value.is_contiguous(), f"{name} is not contiguous")
        return value

    def at_least(self, name: str, have: int, need: int, what: str) -> None:
        """Raise StandInError where a buffer has fewer than `need` entries."""
        self.that(have >= need, f"{name} has {have} {what}, expected at least {need}")

    def scale(self, name: str, value: object) -> torch.Tensor:
        """A per-tensor scale: one float32 number on the device. Raises TypeError, StandInError."""
        _require_tensor(self.function, name, value)
        self.that(value.numel() == 1, f"{name} has {value.numel()} elements, expected 1")
        return self.tensor(name, value, torch.float32, value.shape)

    def offsets(self, name: str, value: object, size: int | None = None) -> list[int]:
        """The numbers of a 1-d int32 tensor that starts at 0 and never falls. Raises TypeError, StandInError."""
        offsets = self.tensor(name, value, torch.int32, (size,)).tolist()
        self.that(len(offsets) >= 2, f"{name} has {len(offsets)} entries, expected at least 2")
        self.that(offsets[0] == 0, f"{name} starts at {offsets[0]}, expected 0 (aiter starts at 0 whatever it says)")
        falls = any(later < earlier for earlier, later in pairwise(offsets))
        self.that(not falls, f"{name} falls; expected offsets that never fall")
        return offsets

    def integer(self, name: str, value: object) -> int:
        """A Python int. Raises TypeError."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{self.function}: {name} must be an int, not {type(value).__name__}")
        return value

    def power_of_two(self, name: str, value: object) -> int:
        """A Python int that is a positive power of two. Raises TypeError, StandInError."""
        self.integer(name, value)
        self.that(value >= 1 and value & (value - 1) == 0, f"{name} is {value}, expected a power of two")
        return value

    def number(self, name: str, value: object) -> float:
        """A Python float or int. Raises TypeError."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{self.function}: {name} must be a float, not {type(value).__name__}")
        return float(value)


def _require_tensor(function: str, name: str, value: object) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{function}: {name} must be a torch.Tensor, not {type(value).__name__}")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
