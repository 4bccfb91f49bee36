"""What is kept of a run: where it ran, what each case gave, what each comparison said.

A figure that was not measured is None, never 0. Times are nanoseconds. Records are known by their source's hash: a file
that has changed since is another file, whatever its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["eval", "check", "ab"]
KINDS: tuple[Kind, ...] = ("eval", "check", "ab")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One command.

    id: 12 hexadecimal digits, drawn; it stays the same wherever the record is taken. started_at: UTC, ISO 8601 to the
    second. problem: the folder's name. commit: of the folder, with `+changes` where tracked files differed. device:
    the GPU's name, or the processor's. device_kind: `cuda`, `hip` or `cpu (interpreted)`. target: `sm_90`, `gfx950`, …
    options: what the command was asked for and the result depends on. clocks: the device's, before and after.
    finished: whether it came to its end; a run that was killed keeps the cases that it had finished.
    """

    id: str
    kind: Kind
    started_at: str
    problem: str
    device: str
    device_kind: str
    target: str
    mode: str | None = None
    commit: str | None = None
    driver: str | None = None
    torch: str | None = None
    triton: str | None = None
    python: str | None = None
    hostname: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    clocks: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class CaseRecord:
    """One case of an `eval`, or one shape of a `check`.

    variant: the file's name without `.py`. file: its path, relative to the problem folder where it lies in it.
    shape: the label, such as `4x1024`; spec: the platform's case line. status: `pass`, `fail` or `not checked`, of the
    whole case; official, exact: of the two verdicts. error, worst_row, limit: of the exact verdict; reads: the inputs
    that its truth is made of. probes: name → status and detail (check). runs, mean_ns, std_ns, err_ns, best_ns,
    worst_ns and samples_ns: of the queued clock. exposed_ns: each call on the exposed clock. bandwidth: bytes a second.
    """

    run_id: str
    position: int
    variant: str
    file: str
    source_hash: str
    shape: str
    status: str
    official: str
    exact: str
    spec: str | None = None
    mismatch_ratio: float | None = None
    error: float | None = None
    worst_row: float | None = None
    limit: float | None = None
    reads: str | None = None
    probes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    slice_of: str | None = None
    runs: int | None = None
    mean_ns: float | None = None
    std_ns: float | None = None
    err_ns: float | None = None
    best_ns: float | None = None
    worst_ns: float | None = None
    samples_ns: tuple[float, ...] = ()
    exposed_ns: tuple[float, ...] = ()
    floor_ns: float | None = None
    bandwidth: float | None = None


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """One shape of an `ab`, or the geometric mean over its shapes (shape None).

    ratio: time of A over time of B, low and high its 95 % interval; the rest as in harness.compare.record. samples_ns:
    every timed call, six a quad in the order of time.
    """

    run_id: str
    position: int
    a: str
    a_hash: str
    b: str
    b_hash: str
    shape: str | None
    ratio: float
    low: float
    high: float
    verdict: str
    reason: str | None
    noise_floor: float
    detectable: float
    p_holm: float
    delta: float
    blocks: int
    processes: int
    a_ns: float | None = None
    b_ns: float | None = None
    samples_ns: tuple[float, ...] = ()


Record = Run | CaseRecord | ComparisonRecord
