"""A device that runs nothing: its clock is a script of drift, jitter, spikes, effects and offsets of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from harness.compare.arm import Arm, ArmName

_CHUNK = 2048

# What a call costs besides the kernel (clear, check, inputs), in seconds: what makes the warm-up end.
_CALL_S = 0.01


@dataclass(frozen=True)
class Weather:
    """What disturbs the clock; all are relative to the time of a call.

    drift: amplitude of a slow sine of random phase, of one to two periods in `drift_calls` calls. jitter: standard
    deviation of the log of one call. spike_rate: share of calls that a spike lengthens, by an exponential draw of
    mean spike_size. process_offset: standard deviation of a constant that each arm draws in each process.
    """

    drift: float = 0.0
    drift_calls: int = 600
    jitter: float = 0.0
    spike_rate: float = 0.0
    spike_size: float = 1.0
    process_offset: float = 0.0


class SimulatedDevice:
    """Opens three simulated arms; `open_arms` and `now_s` are what a run needs.

    b_over_a: time of B over time of A (1: equal kernels). base_ns: time of A in nanoseconds, undisturbed.
    """

    def __init__(self, weather: Weather, seed: int, b_over_a: float = 1.0, base_ns: float = 50_000.0) -> None:
        self._weather = weather
        self._generator = np.random.default_rng(seed)
        self._time_ns: dict[ArmName, float] = {"a": base_ns, "b": base_ns * b_over_a, "a_copy": base_ns}
        self._factors = self._disturbances()
        self._elapsed_s = 0.0

    def now_s(self) -> float:
        """The device's own wall clock, in seconds."""
        return self._elapsed_s

    @contextmanager
    def open_arms(self, order: tuple[ArmName, ...]) -> Iterator[Mapping[ArmName, Arm]]:
        """The arms of one process, each with its offset."""
        offsets = np.exp(self._generator.normal(0.0, 1.0, len(order)) * self._weather.process_offset)
        yield {
            name: _SimulatedArm(self, self._time_ns[name] * float(offset))
            for name, offset in zip(order, offsets, strict=True)
        }

    def call_ns(self, undisturbed_ns: float) -> float:
        """The time that the clock shows for the next call."""
        self._elapsed_s += _CALL_S
        return undisturbed_ns * next(self._factors)

    def _disturbances(self) -> Iterator[float]:
        weather, generator = self._weather, self._generator
        phase = generator.uniform(0, 2 * np.pi)
        radians_per_call = 2 * np.pi * generator.uniform(1, 2) / weather.drift_calls
        start = 0
        while True:
            calls = np.arange(start, start + _CHUNK)
            log_factor = weather.drift * np.sin(phase + radians_per_call * calls)
            log_factor += weather.jitter * generator.standard_normal(_CHUNK)
            spiked = generator.random(_CHUNK) < weather.spike_rate
            spikes = 1 + spiked * generator.exponential(weather.spike_size, _CHUNK)
            yield from (np.exp(log_factor) * spikes).tolist()
            start += _CHUNK


class _SimulatedArm:
    """An arm whose output is always right and whose time does not depend on the inputs."""

    def __init__(self, device: SimulatedDevice, undisturbed_ns: float) -> None:
        self._device, self._undisturbed_ns = device, undisturbed_ns

    def measure(self, shape: str, draw: int) -> float:
        return self._device.call_ns(self._undisturbed_ns)
