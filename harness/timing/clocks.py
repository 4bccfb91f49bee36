"""What the two clocks showed of a case, what they show of nothing, and the time that moving the bytes takes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

# queued: the platform's, events around a call that is enqueued behind a running clear. exposed: the host's, from an
# idle device to an idle device again.
Clock = Literal["queued", "exposed"]
CLOCKS: tuple[Clock, ...] = ("queued", "exposed")


@dataclass(frozen=True)
class EmptyTimes:
    """Medians of calls without a submission in them, in nanoseconds: printed beside a time, never subtracted.

    queued, exposed: nothing between the two readings of the clock. queued_launch, exposed_launch: one kernel that
    writes a single value.
    """

    queued: float
    queued_launch: float
    exposed: float
    exposed_launch: float


@dataclass(frozen=True)
class ByteFloor:
    """The time that moving the bytes of one call takes by itself.

    bytes_needed: what any right kernel must read and write for the declared inputs. bandwidth: bytes a second that a
    kernel which only reads reached on this device in this run (harness/targets/bandwidth.py).
    """

    bytes_needed: int
    bandwidth: float

    @property
    def floor_ns(self) -> float:
        """Nanoseconds: bytes over bandwidth."""
        return self.bytes_needed / self.bandwidth * 1e9

    def share(self, queued_ns: float) -> float:
        """The share of the floor that a queued time reached: 1 is a kernel that only moves its bytes."""
        return self.floor_ns / queued_ns


def median_ns(samples_ns: tuple[float, ...]) -> float | None:
    """The median of timed calls in nanoseconds; None where nothing was timed."""
    return median(samples_ns) if samples_ns else None
