"""The arms of an A/B comparison on a real device: three children, each called on the same fresh inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from harness.compare.arm import ArmName, WrongOutput
from harness.errors import WorkerFailed
from harness.evaluation.bench import Bench
from harness.evaluation.modes import SEED_STEP
from harness.evaluation.protocol import Deadline
from harness.evaluation.referee import Draw, Referee
from harness.evaluation.run_folder import run_folder
from harness.problem.problem import Problem
from harness.problem.variant import Variant
from harness.targets.machine import Machine

CALL_LIMIT_S = 120.0


class Draws:
    """The inputs of the draw in hand, shape by shape, shared by all arms and never drawn twice in a row."""

    def __init__(self, problem: Problem, referee: Referee, first_seed: int) -> None:
        self._problem, self._referee, self._first_seed = problem, referee, first_seed
        self._held: dict[str, tuple[int, Draw]] = {}

    def get(self, shape: str, number: int) -> Draw:
        """Inputs of one shape for one draw number."""
        held = self._held.get(shape)
        if held is None or held[0] != number:
            case = self._problem.shape(shape).case.with_secret_seed(self._first_seed)
            self._held.clear()
            self._held[shape] = (number, self._referee.draw(case.with_seed_plus(SEED_STEP * (number + 1))))
        return self._held[shape][1]


class GpuArm:
    """One submission in its own process; every timed output is judged.

    Against the truth, or by the problem's own rule where it has no truth.
    """

    def __init__(self, bench: Bench, draws: Draws, referee: Referee, clear_bytes: int | None) -> None:
        self._bench, self._draws, self._referee = bench, draws, referee
        self._clear_bytes = clear_bytes

    def measure(self, shape: str, draw: int) -> float:
        """Nanoseconds of one call on these inputs. Raises WrongOutput, or WorkerFailed when the child failed."""
        inputs = self._draws.get(shape, draw)
        deadline = Deadline.after(CALL_LIMIT_S)
        self._bench.put(inputs.data, deadline, slot=shape)
        call = self._bench.time(deadline, self._clear_bytes, slot=shape)
        if call.stand_in or call.time_ns is None:
            raise WorkerFailed("it ran on a stand-in for aiter, which is never timed")
        exact = self._referee.exact(inputs, call.output)
        if exact.status == "fail":
            raise WrongOutput(exact.detail)
        if exact.status == "not checked":
            official = self._referee.official(inputs, call.output)
            if official.status != "pass":
                raise WrongOutput(official.message or "the problem's own check rejects the output")
        return call.time_ns


def arms_opener(
    problem: Problem, a: Variant, b: Variant, machine: Machine, clear_bytes: int | None, first_seed: int
) -> Callable[[Sequence[ArmName]], AbstractContextManager[Mapping[ArmName, GpuArm]]]:
    """What `harness.compare.run.compare` opens for each process: A, B and a copy of A, in the order asked for."""
    variants: dict[ArmName, Variant] = {"a": a, "b": b, "a_copy": a}
    referees = {name: Referee(problem, variant, machine) for name, variant in variants.items()}
    draws = Draws(problem, referees["a"], first_seed)

    @contextmanager
    def open_arms(order: Sequence[ArmName]) -> Iterator[Mapping[ArmName, GpuArm]]:
        with ExitStack() as stack:
            arms: dict[ArmName, GpuArm] = {}
            for name in order:
                folder = stack.enter_context(run_folder(problem, variants[name]))
                bench = stack.enter_context(Bench(folder, machine))
                bench.load(Deadline.after(CALL_LIMIT_S))
                arms[name] = GpuArm(bench, draws, referees[name], clear_bytes)
            yield arms

    return open_arms
