"""Checks a merged file against its parts: bitwise equal on every shape, and right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.checking.verdict import ExactVerdict, OfficialVerdict
from harness.errors import WorkerFailed
from harness.evaluation.ability import require_device
from harness.evaluation.bench import Bench
from harness.evaluation.protocol import Deadline, flatten, tensor_to_bytes
from harness.evaluation.referee import Draw, Referee
from harness.evaluation.run_folder import run_folder
from harness.problem.problem import Problem, Shape
from harness.problem.variant import Variant
from harness.targets.machine import Machine

CALL_LIMIT_S = 300.0


@dataclass(frozen=True)
class MergedShape:
    """One shape of a merged file.

    variant: the part that owns it. equal: whether both outputs have the same bytes. reason: why it is not all
    right, '' if it is. slice_of: how much of the shape ran, None for all of it. stand_in: whether a stand-in
    computed it.
    """

    shape: str
    label: str
    variant: str
    equal: bool
    official: OfficialVerdict
    exact: ExactVerdict
    slice_of: str | None
    stand_in: bool
    reason: str

    @property
    def passed(self) -> bool:
        """Equal to its part and right by both verdicts."""
        return self.equal and self.official.status == "pass" and self.exact.status != "fail"


def check_merge(
    problem: Problem,
    merged: Variant,
    parts: Mapping[str, Variant],
    machine: Machine,
    listener: Callable[[MergedShape], None] = lambda result: None,
) -> list[MergedShape]:
    """Run the merged file and each shape's own variant on the same inputs. parts: shape label → variant."""
    require_device(merged, parts, machine, "or merge without running it: --no-verify")
    referee = Referee(problem, merged, machine)
    results: list[MergedShape] = []
    with run_folder(problem, merged) as merged_folder, Bench(merged_folder, machine) as whole:
        for shape in problem.shapes:
            if shape.label not in parts:
                continue
            result = _check_shape(problem, shape, whole, parts[shape.label], referee, machine)
            results.append(result)
            listener(result)
    return results


def _check_shape(
    problem: Problem, shape: Shape, whole: Bench, part: Variant, referee: Referee, machine: Machine
) -> MergedShape:
    draw = referee.draw(shape.case)
    official, exact = OfficialVerdict("not checked", ""), ExactVerdict("not checked", "")
    equal, stand_in = False, False
    try:
        merged_call = _call(whole, draw, shape.key if draw.slice_note else None)
        stand_in = merged_call.stand_in
        wrong_kind = referee.malformed(draw, merged_call.output)
        official = OfficialVerdict("fail", wrong_kind) if wrong_kind else referee.official(draw, merged_call.output)
        exact = referee.exact(draw, merged_call.output)
        with run_folder(problem, part) as folder, Bench(folder, machine) as bench:
            alone = _call(bench, draw, None)
        equal = _bytes_of(merged_call.output) == _bytes_of(alone.output)
        reason = "" if equal else f"differs from {part.name} alone on the same inputs"
    except WorkerFailed as error:
        reason = str(error).splitlines()[0] if str(error) else "failed"
    if not reason and official.status != "pass":
        reason = f"official: {official.message.splitlines()[0] if official.message else 'rejected'}"
    if not reason and exact.status == "fail":
        reason = f"exact: {exact.detail}"
    return MergedShape(shape.name, shape.label, part.name, equal, official, exact, draw.slice_note, stand_in, reason)


def _call(bench: Bench, draw: Draw, key: tuple[Any, ...] | None) -> Any:
    deadline = Deadline.after(CALL_LIMIT_S)
    bench.put(draw.data, deadline)
    return bench.call(deadline, key)


def _bytes_of(output: Any) -> list[bytes]:
    leaves: list[Any] = []
    flatten(output, leaves)
    return [tensor_to_bytes(leaf) for leaf in leaves]
