"""Evaluations written out by hand, for the tests of the report."""

from __future__ import annotations

import math
from dataclasses import replace

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.evaluation.result import CaseResult, Evaluation, Mode
from harness.targets.machine import Machine
from harness.timing.statistics import Statistics

GPU = Machine(
    kind="cuda",
    gpu="NVIDIA H200",
    cpu="Intel(R) Xeon(R)",
    device_count=1,
    runtime="CUDA",
    platform="Linux-6.1",
    torch="2.13.0",
    hostname="node-1",
)
CPU = replace(GPU, kind="cpu (interpreted)", gpu="", runtime="")
SPEC_1 = "batchsize: 4; qseqlen: 1; kvseqlen: 1024; seed: 4217"
SPEC_2 = "batchsize: 4; qseqlen: 1; kvseqlen: 8192; seed: 4220"
TIMING = Statistics(runs=100, mean=36_512.3, std=210.0, err=21.0, best=35_900.0, worst=41_002.5)
ONE_RUN = Statistics(runs=1, mean=1_500_000.0, std=math.nan, err=math.nan, best=1_500_000.0, worst=1_500_000.0)


def passed(spec: str = SPEC_1, shape: str = "S1", message: str = "", timing: Statistics | None = None) -> CaseResult:
    """A case that passed both verdicts."""
    exact = ExactVerdict("pass", "", error=0.0031, worst_row=0.0049, limit=0.01, reads="fp8", declared_by="variant")
    return CaseResult(shape, spec, "pass", OfficialVerdict("pass", message, 0.0), exact, timing=timing)


def failed(
    spec: str = SPEC_2, shape: str = "S2", message: str = "mismatch", reason: str = "official: mismatch"
) -> CaseResult:
    """A case that the platform's rule failed, or, without a message, one that died before it was judged."""
    official = OfficialVerdict("fail", message, 0.25) if message else OfficialVerdict("not checked", "")
    return CaseResult(shape, spec, "fail", official, ExactVerdict("not checked", ""), reason=reason)


def evaluation(mode: Mode, *cases: CaseResult, machine: Machine = GPU, **more: object) -> Evaluation:
    """An evaluation of submission.py; score None unless given."""
    values: dict[str, object] = {"score_ns": None, "duration_s": 12.345, **more}
    return Evaluation("submission.py", "0" * 64, mode, machine, cases, **values)  # type: ignore[arg-type]
