"""Evaluates one file in one mode: the parent's loop over the cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median

from harness.checking.truth import Declaration
from harness.errors import BrokenSubmission, BrokenTask, MissingCapability, UnknownName, WorkerFailed
from harness.evaluation.ability import require_device
from harness.evaluation.bench import Bench
from harness.evaluation.modes import CaseRun, Conditions
from harness.evaluation.profile_run import Profiler, find_program, profile_under
from harness.evaluation.protocol import Deadline
from harness.evaluation.referee import Referee
from harness.evaluation.result import MODES, TIMED_MODES, CaseResult, Evaluation, Mode
from harness.evaluation.run_folder import run_folder
from harness.problem.case import Case
from harness.problem.problem import Problem
from harness.problem.variant import Variant
from harness.targets import bandwidth
from harness.targets.machine import Machine, open_machine
from harness.timing.clear import CLEAR_BYTES, OFFICIAL_CLEAR_BYTES, check_official_clear_fits
from harness.timing.clocks import Clock, EmptyTimes
from harness.timing.statistics import score_ns, statistics_of

CALL_LIMIT_S = 300.0
# Of each kind of empty call: with the default clear, 84 of them take about a third of a second.
EMPTY_CALLS = 21


@dataclass(frozen=True)
class Request:
    """What to evaluate and how.

    device: auto, cuda, hip or cpu. shapes: labels or names to restrict to, None for all that the file takes.
    secret_seed: combined with each case's seed as on the platform. clear_bytes: None for the platform's clear.
    limit_s: stop after this many seconds and keep what was measured; None for the task's own timeout.
    declaration: what the file reads and rounds to, for a file that declares nothing. profiler: of profile mode.
    processes: fresh processes among which a timed mode shares a case's calls.
    """

    mode: Mode = "test"
    device: str = "auto"
    shapes: str | None = None
    secret_seed: int | None = None
    clear_bytes: int | None = CLEAR_BYTES
    limit_s: float | None = None
    call_limit_s: float = CALL_LIMIT_S
    declaration: Declaration | None = None
    profiler: Profiler = "torch"
    processes: int = 1


CaseListener = Callable[[int, int, CaseResult | None, str], None]


def _ignore(index: int, count: int, result: CaseResult | None, label: str) -> None:
    return None


def choose_cases(problem: Problem, variant: Variant, mode: str, shapes: str | None) -> list[Case]:
    """The mode's cases that the file takes, narrowed to `shapes`; a shape without a test lends its benchmark.

    Raises UnknownName for a shape that does not exist, or that the file does not take.
    """
    if not problem.shapes:
        raise BrokenTask(f"{problem.root / 'task.yml'}: neither tests nor benchmarks")
    chosen = problem.select_shapes(shapes)
    if shapes:
        refused = [shape for shape in chosen if not variant.takes(shape.label)]
        if refused:
            accepted = [word for s in problem.shapes if variant.takes(s.label) for word in (s.name, s.label)]
            raise UnknownName(f"shape for {variant.name}", refused[0].label, accepted)
    taken = [shape for shape in chosen if variant.takes(shape.label)]
    cases = list(problem.task.tests if mode == "test" else problem.task.benchmarks)
    if mode != "test" and problem.task.ranking_by == "last":
        cases = cases[-1:]
    if not taken:
        labels = ", ".join(shape.label for shape in problem.shapes)
        raise BrokenSubmission(f"{variant.path}: VARIANT['shapes'] names no shape of this problem ({labels})")
    if cases and shapes is None and variant.shapes is None:
        return cases
    selected = [case for case in cases if problem.shape_of(case) in taken]
    covered = [problem.shape_of(case) for case in selected]
    return selected + [shape.case for shape in taken if shape not in covered]


def evaluate(
    problem: Problem,
    variant: Variant,
    request: Request,
    *,
    cases: Sequence[Case] | None = None,
    machine: Machine | None = None,
    listener: CaseListener = _ignore,
) -> Evaluation:
    """Run the file's cases in a child process and judge each.

    listener(index, count, result, label) is called with result None when a case begins and with the result
    when it ends. Raises UnknownName, MissingCapability, BrokenTask and BrokenSubmission for what cannot even
    begin; whatever the submission does afterwards is in the result. KeyboardInterrupt passes through with
    the child ended and the run folder removed.
    """
    if request.mode not in MODES:
        raise UnknownName("mode", request.mode, MODES)
    if cases is None:
        cases = choose_cases(problem, variant, request.mode, request.shapes)
    cases = [case.with_secret_seed(request.secret_seed) for case in cases]
    machine = machine or open_machine(request.device)
    require_device(variant, [shape.label if (shape := problem.shape_of(case)) else None for case in cases], machine)
    timed = machine.on_gpu and request.mode in TIMED_MODES
    if request.processes > 1 and not timed:
        raise MissingCapability(
            f"--processes {request.processes} shares timed calls among processes, and nothing is timed in mode "
            f"{request.mode} on {machine.kind}; leave it out"
        )
    if timed and request.clear_bytes is None:
        check_official_clear_fits(free_memory(), machine.gpu)
    program = find_program(request.profiler, machine)
    began = time.monotonic()
    with run_folder(problem, variant) as folder, ExitStack() as open_benches:
        benches = [open_benches.enter_context(Bench(folder, machine)) for _ in range(request.processes)]
        for bench in benches:
            # Each imports torch while the problem's modules are read and the first inputs drawn here.
            bench.start()
        referee = Referee(problem, variant, machine, request.declaration)
        limit_s = request.limit_s if request.limit_s is not None else problem.task.timeout_s(request.mode)
        conditions = Conditions(
            Deadline.after(limit_s),
            request.call_limit_s,
            request.clear_bytes,
            machine.on_gpu,
            bandwidth.measured_bandwidth,
            request.processes,
        )
        profile = None if program is None else profile_under(request.profiler, program, folder, machine)
        runs = [CaseRun(benches[0], referee, conditions, case, problem.shape_of(case), profile) for case in cases]
        results, empty = _run_all(runs, benches, request.mode, lambda each: _excused(each, variant, machine), listener)
        printed = [bench.printed() for bench in benches]
    stood_in = any(run.stand_in for run in runs)
    return Evaluation(
        file=str(variant.path),
        source_hash=variant.source_hash,
        mode=request.mode,
        machine=machine,
        cases=tuple(results),
        score_ns=_score(problem, request.mode, results),
        notes=_notes(machine, results, stood_in, conditions),
        stdout="".join(out for out, _ in printed),
        stderr="".join(err for _, err in printed),
        duration_s=time.monotonic() - began,
        first_calls_s=sum(run.first_calls_s for run in runs),
        timed_calls_s=sum(run.timed_calls_s for run in runs),
        processes=request.processes,
        empty=empty,
        clear_bytes=(OFFICIAL_CLEAR_BYTES if request.clear_bytes is None else request.clear_bytes) if timed else None,
    )


def _run_all(
    runs: Sequence[CaseRun],
    benches: Sequence[Bench],
    mode: Mode,
    excused: Callable[[CaseResult], CaseResult],
    listener: CaseListener,
) -> tuple[list[CaseResult], EmptyTimes | None]:
    """Every case in every process, and what the clocks show of nothing; the last process's results are all of them."""
    results: list[CaseResult] = []
    empty: EmptyTimes | None = None
    if runs:
        runs[0].warm_up(mode)
    for bench in benches:
        for index, run in enumerate(runs):
            label = run.shape.label if run.shape else run.case.spec
            listener(index, len(runs), None, label)
            run.bench = bench
            result = excused(run.run(mode))
            if bench is benches[0]:
                results.append(result)
            else:
                results[index] = pooled(results[index], result)
            if empty is None and result.timing is not None:
                empty = empty_times(bench, run.conditions)
            if bench is benches[-1]:
                listener(index, len(runs), results[index], label)
        bench.close()
    return results, empty


def pooled(earlier: CaseResult, later: CaseResult) -> CaseResult:
    """One case from two processes: the samples of both, or the failure of whichever failed."""
    if earlier.status != "pass" or later.status != "pass":
        return earlier if earlier.status != "pass" else later
    samples_ns = (*earlier.samples_ns, *later.samples_ns)
    return replace(
        earlier,
        samples_ns=samples_ns,
        exposed_ns=(*earlier.exposed_ns, *later.exposed_ns),
        timing=statistics_of(samples_ns) if samples_ns else None,
    )


def empty_times(bench: Bench, conditions: Conditions) -> EmptyTimes | None:
    """What the clocks show without the submission, in its own child; None where the limit of time came first."""

    def typical_ns(clock: Clock, *, launches: bool) -> float:
        deadline, clear_bytes = conditions.call_deadline(), conditions.clear_bytes
        return median(bench.empty(deadline, clear_bytes, clock, launches=launches, count=EMPTY_CALLS))

    try:
        return EmptyTimes(
            queued=typical_ns("queued", launches=False),
            queued_launch=typical_ns("queued", launches=True),
            exposed=typical_ns("exposed", launches=False),
            exposed_launch=typical_ns("exposed", launches=True),
        )
    except WorkerFailed:
        # The case that was timed stands; the next one finds out by itself whether the child is gone.
        return None


def free_memory() -> int:
    """Bytes that are free on the current GPU."""
    import torch

    return torch.cuda.mem_get_info()[0]


def _excused(result: CaseResult, variant: Variant, machine: Machine) -> CaseResult:
    """A kernel that the interpreter cannot run at all was not checked; that is no verdict on the kernel."""
    uses_gluon = "triton.experimental" in variant.source and "gluon" in variant.source
    if machine.on_gpu or result.status != "fail" or not uses_gluon or result.official.status != "not checked":
        return result
    return replace(result, status="not checked", reason="Gluon kernels need a GPU; Triton cannot interpret them")


def _score(problem: Problem, mode: str, results: Sequence[CaseResult]) -> float | None:
    """The score, where every ranked benchmark was run, passed and timed."""
    ranked = problem.task.benchmarks[-1:] if problem.task.ranking_by == "last" else problem.task.benchmarks
    timings = [result.timing for result in results if result.status == "pass" and result.timing is not None]
    complete = [result.spec for result in results] == [case.spec for case in ranked] and len(timings) == len(results)
    if mode not in TIMED_MODES or not timings or not complete:
        return None
    return score_ns([timing.mean for timing in timings], problem.task.ranking_by)


def _notes(machine: Machine, results: Sequence[CaseResult], stood_in: bool, conditions: Conditions) -> tuple[str, ...]:
    notes = []
    if not machine.on_gpu:
        notes.append("Triton kernels were interpreted on the CPU: correctness only, no timings.")
    slices = list(dict.fromkeys(result.slice_of for result in results if result.slice_of))
    if slices:
        notes.append(
            f"Each shape ran on a slice ({'; '.join(slices)}), by the shape's own code where the file offers it."
        )
    if stood_in:
        from harness.aiter_stand_in import NOTICE

        notes.append(NOTICE)
    fitted = {result.exact.reads for result in results if result.exact.declared_by == "best fit" and result.exact.reads}
    if fitted:
        best = ", ".join(sorted(fitted))
        notes.append(f"The file declares no inputs; its output fits {best} best. Say --kv and --rounding to fix it.")
    if conditions.deadline.passed:
        notes.append("The limit of time ended this run; what was measured until then is kept.")
    return tuple(notes)
