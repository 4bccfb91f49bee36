"""Finds the peers that can run here and evaluates each, one after the other, on the same cases as a submission."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.evaluation.evaluate import CaseListener, Request, evaluate
from harness.evaluation.result import Evaluation
from harness.problem.problem import Problem
from harness.problem.variant import Variant, read_variant
from harness.targets.machine import Machine, package_version
from harness.timing.clear import CLEAR_BYTES

FOLDER = Path(__file__).parent
# In the order of the table: what everybody has, then what must be installed.
ADAPTERS = ("sdpa", "flashmla_bf16", "flashmla_fp8", "flashinfer_mla", "vllm_triton")


@dataclass(frozen=True)
class Peer:
    """A kernel to be timed: a public one behind an adapter, or a file of the user's own.

    module, package: what its adapter imports and the distribution that has it, '' for a file of one's own. get: how
    to install that.
    """

    name: str
    variant: Variant
    module: str = ""
    package: str = ""
    get: str = ""

    @property
    def version(self) -> str | None:
        """The installed version of its package."""
        return package_version(self.package) if self.package else None

    def missing(self, machine: Machine) -> str | None:
        """Why it cannot run on this machine and what to do, in one line; None where it can."""
        if not self.module:
            return None
        targets, reasons = self.variant.targets, []
        if importlib.util.find_spec(self.module) is None:
            reasons.append(f"{self.package} is not installed ({self.get})")
        if "portable" not in targets and machine.target not in targets:
            here = machine.target if machine.on_gpu else "no GPU"
            reasons.append(f"it needs {' or '.join(targets)} (here: {here})")
        return "; ".join(reasons) or None


@dataclass(frozen=True)
class PeerResult:
    """What came of one peer: an evaluation, or why there is none."""

    peer: Peer
    evaluation: Evaluation | None
    missing: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it is absent, or every case of it passed."""
        return self.evaluation is None or self.evaluation.passed


def peers() -> list[Peer]:
    """Every public peer, whether or not it can run here."""
    variants = [read_variant(FOLDER / f"{name}.py") for name in ADAPTERS]
    return [Peer(variant=variant, **variant.declared["peer"]) for variant in variants]


def measure(
    problem: Problem,
    chosen: Iterable[Peer],
    machine: Machine,
    shapes: str | None = None,
    clear_bytes: int | None = CLEAR_BYTES,
    limit_s: float | None = None,
    listener: Callable[[str], CaseListener] | None = None,
) -> Iterator[PeerResult]:
    """Evaluate each peer on the benchmark cases; without a GPU, on the test cases and without times.

    listener(name) gives the listener of one peer's evaluation. Raises what `evaluate` raises before it begins.
    """
    mode = "benchmark" if machine.on_gpu else "test"
    for peer in chosen:
        why = peer.missing(machine)
        if why is not None:
            yield PeerResult(peer, None, why)
            continue
        request = Request(mode, shapes=shapes, clear_bytes=clear_bytes, limit_s=limit_s)
        more = {} if listener is None else {"listener": listener(peer.name)}
        yield PeerResult(peer, evaluate(problem, peer.variant, request, machine=machine, **more))
