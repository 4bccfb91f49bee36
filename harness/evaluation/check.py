"""Checks one file: both verdicts and every probe on each shape that it takes. Nothing is timed for a result."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from harness.checking.probes import PROBE_NAMES, PROBES
from harness.checking.probes.probe import Probe, ProbeResult, failed
from harness.checking.truth import Declaration
from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.errors import UnknownName, WorkerFailed
from harness.evaluation.ability import require_device
from harness.evaluation.bench import Bench
from harness.evaluation.referee import Draw, Referee
from harness.evaluation.run_folder import run_folder
from harness.evaluation.situation import BenchSubject, ShapeSituation
from harness.problem.problem import Problem, Shape
from harness.problem.variant import Variant
from harness.targets.machine import Machine


@dataclass(frozen=True)
class ShapeCheck:
    """One shape: both verdicts and what each probe saw.

    format_cost: error of the truth for the declared inputs against the truth for the first of the problem's
    formats of full precision, where the problem says which that is. slice_of: how much of the shape ran.
    """

    shape: str
    label: str
    official: OfficialVerdict
    exact: ExactVerdict
    probes: dict[str, ProbeResult]
    slice_of: str | None
    stand_in: bool
    reason: str
    format_cost: float | None = None

    @property
    def passed(self) -> bool:
        """Both verdicts passed, and no probe failed."""
        return (
            self.official.status == "pass"
            and self.exact.status != "fail"
            and all(result.status != "fail" for result in self.probes.values())
        )

    @property
    def honest(self) -> bool:
        """The exact verdict and every probe passed, whatever the problem's own rule says."""
        return self.exact.status != "fail" and all(result.status != "fail" for result in self.probes.values())


@dataclass(frozen=True)
class FileCheck:
    """One file on one machine. notes: what must be read with the result."""

    file: str
    source_hash: str
    machine: Machine
    shapes: tuple[ShapeCheck, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """There were shapes, and all of them passed."""
        return bool(self.shapes) and all(shape.passed for shape in self.shapes)


def choose_probes(names: Sequence[str]) -> tuple[Probe, ...]:
    """The probes of these names, all of them for none. Raises UnknownName."""
    for name in names:
        if name not in PROBE_NAMES:
            raise UnknownName("probe", name, PROBE_NAMES)
    return tuple(probe for probe in PROBES if not names or probe.name in names)


def check_file(
    problem: Problem,
    variant: Variant,
    machine: Machine,
    *,
    shapes: Sequence[Shape],
    probes: Sequence[Probe] = PROBES,
    declaration: Declaration | None = None,
    seed: int | None = None,
    other_shapes: Sequence[Shape] = (),
    until_first_failure: bool = False,
    listener: Callable[[str, str], None] = lambda shape, step: None,
    finished: Callable[[ShapeCheck], None] = lambda shape: None,
) -> FileCheck:
    """Run the verdicts and probes on `shapes`. seed: a first seed for a repeatable check; None draws one.

    other_shapes: shapes that are not checked, for the probe that needs another one. until_first_failure: leave out
    the probes after the first thing that fails, for a caller who only asks whether the file is to be believed.
    listener(label, step) is called before each step and finished(result) after each shape, from any thread. Raises
    BrokenSubmission for a declaration that the problem cannot read; what the submission does is in the result.
    """
    require_device(variant, [shape.label for shape in shapes], machine)
    Referee(problem, variant, machine, declaration).load()
    with (
        run_folder(problem, variant) as folder,
        ExitStack() as open_benches,
        _at_once(machine, len(shapes)) as pool,
    ):
        benches = {shape.label: open_benches.enter_context(Bench(folder, machine)) for shape in shapes}
        if machine.on_gpu:
            for bench in benches.values():
                # Shapes are checked one by one there; their processes import torch meanwhile.
                bench.start()

        def run(shape: Shape) -> ShapeCheck:
            others = tuple(other for other in (*shapes, *other_shapes) if other.label != shape.label)
            referee = Referee(problem, variant, machine, declaration)
            seeds = _seeds(None if seed is None else f"{seed}, {shape.label}")
            check = _ShapeRun(referee, variant, machine, benches[shape.label], shape, others, seeds, listener)
            result = check.run(probes, until_first_failure)
            finished(result)
            return result

        results = list(pool.map(run, shapes))
    return FileCheck(str(variant.path), variant.source_hash, machine, tuple(results), _notes(machine, results))


@contextmanager
def _at_once(machine: Machine, shapes: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for the shapes: one on a device, which times and must not be shared, and one a core without.

    With several, torch works on one core in each. KeyboardInterrupt passes through, leaving out what has not begun.
    """
    import torch

    workers = 1 if machine.on_gpu else max(1, min(shapes, os.cpu_count() or 1))
    threads = torch.get_num_threads()
    if workers > 1:
        torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _seeds(first: str | None) -> Callable[[], int]:
    if first is None:
        return lambda: secrets.randbelow(1 << 31)
    import random

    generator = random.Random(first)
    return lambda: generator.randrange(1 << 31)


@dataclass
class _ShapeRun:
    referee: Referee
    variant: Variant
    machine: Machine
    bench: Bench
    shape: Shape
    others: tuple[Shape, ...]
    seeds: Callable[[], int]
    listener: Callable[[str, str], None]

    def run(self, probes: Sequence[Probe], until_first_failure: bool) -> ShapeCheck:
        """Both verdicts in a fresh process, then the probes in the same one, or a new one after it died."""
        with self.bench as bench:
            subject = BenchSubject(bench, self.shape.key)
            situation = ShapeSituation(
                subject, self.referee, self.variant, self.shape, self.others, self.machine.on_gpu, self.seeds
            )
            self.listener(self.shape.label, "verdicts")
            result = self._verdicts(situation)
            for probe in probes:
                if until_first_failure and not result.honest:
                    break
                self.listener(self.shape.label, probe.name)
                result.probes[probe.name] = _ask(probe, situation)
            return replace(result, stand_in=subject.stood_in)

    def _verdicts(self, situation: ShapeSituation) -> ShapeCheck:
        note = self.referee.arguments(self.shape.case)[1]
        blank = ShapeCheck(
            self.shape.name, self.shape.label, OfficialVerdict("not checked", ""), ExactVerdict("not checked", ""),
            {}, note, False, "",
        )  # fmt: skip
        data = situation.draw()
        try:
            situation.subject.put(data)
            output = situation.subject.call()
        except WorkerFailed as error:
            reason = str(error).splitlines()[0] if str(error) else "failed"
            return replace(
                blank, official=OfficialVerdict("fail", reason), exact=ExactVerdict("fail", reason), reason=reason
            )
        draw = Draw(self.shape.case, data, note)
        wrong_kind = self.referee.malformed(draw, output)
        official = OfficialVerdict("fail", wrong_kind) if wrong_kind else self.referee.official(draw, output)
        exact = self.referee.exact(draw, output)
        return replace(blank, official=official, exact=exact, format_cost=self.referee.format_cost(draw))


def _ask(probe: Probe, situation: ShapeSituation) -> ProbeResult:
    try:
        return probe.run(situation)
    except WorkerFailed as error:
        return failed(str(error).splitlines()[0] if str(error) else "the submission's process failed")
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        # An output of another kind than the first one: whatever a submission returns must not end the check.
        return failed(f"the output cannot be compared: {type(error).__name__}: {str(error).splitlines()[0]}")


def _notes(machine: Machine, results: Sequence[ShapeCheck]) -> tuple[str, ...]:
    notes = []
    if not machine.on_gpu:
        notes.append("Triton kernels were interpreted on the CPU: correctness only, no timings.")
    if any(result.slice_of for result in results):
        notes.append("Each shape ran on a slice of its batch.")
    if any(result.stand_in for result in results):
        from harness.aiter_stand_in import NOTICE

        notes.append(NOTICE)
    fitted = {result.exact.reads for result in results if result.exact.declared_by == "best fit" and result.exact.reads}
    if fitted:
        notes.append(f"The file declares no inputs; its output fits {', '.join(sorted(fitted))} best.")
    return tuple(notes)
