"""Probes: what a right and honest kernel stands, and each kind of wrong or dishonest one does not."""

from __future__ import annotations

from harness.checking.probes.device import DeviceSync, Floor, OutsideClock
from harness.checking.probes.memory import FreshValues, InputsUnharmed, KeptOutputs, NewAddress, PoisonedMemory
from harness.checking.probes.probe import Probe
from harness.checking.probes.source import SourceRules
from harness.checking.probes.values import EntryPoint, HardShapes, HardValues, KeySensitivity, Order

PROBES: tuple[Probe, ...] = (
    SourceRules(),
    EntryPoint(),
    FreshValues(),
    NewAddress(),
    Order(),
    PoisonedMemory(),
    InputsUnharmed(),
    KeySensitivity(),
    HardValues(),
    HardShapes(),
    KeptOutputs(),
    DeviceSync(),
    OutsideClock(),
    Floor(),
)

PROBE_NAMES = tuple(probe.name for probe in PROBES)
