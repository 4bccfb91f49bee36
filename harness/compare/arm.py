"""What a comparison needs of its caller: three arms that can be timed, opened once per process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from harness.errors import HarnessError

ArmName = Literal["a", "b", "a_copy"]

# a_copy is a second, separately imported copy of A: what differs between the two is noise by construction.
ARMS: tuple[ArmName, ...] = ("a", "b", "a_copy")


class WrongOutput(HarnessError):
    """A timed call gave an output that did not pass its check; the message says which check and by how much."""

    exit_code = 1


class ComparisonStopped(HarnessError):
    """An arm failed, so there is no verdict; the message says which arm, where, and why. Nothing stays open."""

    exit_code = 1


class Arm(Protocol):
    """One submission, loaded and ready."""

    def measure(self, shape: str, draw: int) -> float:
        """Time one call, in nanoseconds, on the inputs of `shape` and draw number `draw`, and verify its output.

        Equal draw numbers must give equal inputs in every arm and in both calls of an arm, each call in storage of
        its own, so that an answer kept from an earlier call cannot be handed out again.
        Raises WrongOutput where the output did not pass, WorkerFailed where the child died or hung.
        """
        ...


# Given the order in which to import them, starts a fresh process (or several) and yields the arms by name.
OpenArms = Callable[[tuple[ArmName, ...]], AbstractContextManager[Mapping[ArmName, Arm]]]
