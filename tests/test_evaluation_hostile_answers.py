"""Whatever an answer of the child holds, it ends that child with one line of reason and never the harness."""

from __future__ import annotations

import math
import struct
from collections import namedtuple

import pytest
import torch

from harness.errors import BrokenTask, WorkerFailed
from harness.evaluation import bench as bench_module
from harness.evaluation.bench import Bench
from harness.evaluation.protocol import Deadline, TensorSpec, tensor_to_bytes
from harness.targets.machine import Machine

Point = namedtuple("Point", "x y")


class HostileChild:
    """Answers every command with what it was given."""

    answers: dict[str, tuple[dict, bytes]]
    closed = 0

    def __init__(self, folder: object, *, interpret: bool) -> None:
        self.stdout = self.stderr = type("Silent", (), {"text": lambda self: ""})()

    def request(self, command: str, *rest: object, **arguments: object) -> tuple[dict, bytearray]:
        answer, payload = self.answers.get(command, ({"handles": [None]}, b""))
        return answer, bytearray(payload)

    def close(self) -> None:
        type(self).closed += 1


GOOD = {
    "skeleton": {"tensor": 0},
    "specs": [{"shape": [2], "stride": [1], "dtype": "float32", "on_gpu": False}],
    "time_ns": 5.0,
    "stand_in": False,
    "reused": None,
}
CPU = Machine("cpu (interpreted)", "", "", 1, "", "", "", "")
EIGHT = struct.pack("=2f", 1, 2)


def answered(monkeypatch, answer: dict, payload: bytes, command: str = "call") -> Bench:
    child = type("Hostile", (HostileChild,), {"answers": {command: (answer, payload)}, "closed": 0})
    monkeypatch.setattr(bench_module, "Child", child)
    bench = Bench(None, CPU)
    bench.put(torch.zeros(2), Deadline.after(5))
    return bench


def spec(**changes: object) -> dict:
    return {**GOOD, "specs": [{**GOOD["specs"][0], **changes}]}


def test_a_good_answer_is_an_output_with_its_time(monkeypatch):
    bench = answered(monkeypatch, GOOD, EIGHT)
    call = bench.time(Deadline.after(5), None)
    assert call.output.tolist() == [1, 2]
    assert (call.time_ns, call.stand_in) == (5.0, False)


@pytest.mark.parametrize(
    ("answer", "payload"),
    [
        ({}, b""),
        ({**GOOD, "specs": None}, EIGHT),
        ({**GOOD, "specs": []}, EIGHT),
        ({**GOOD, "specs": ["float32"]}, EIGHT),
        ({**GOOD, "skeleton": {"tensor": 9}}, EIGHT),
        ({**GOOD, "skeleton": {"code": "1"}}, EIGHT),
        ({**GOOD, "skeleton": {"dict": [[{}, {"value": 1}]]}}, EIGHT),
        ({**GOOD, "time_ns": "fast"}, EIGHT),
        ({**GOOD, "time_ns": [1]}, EIGHT),
        (GOOD, b""),
        (GOOD, EIGHT[:-1]),
        (spec(dtype="nn"), EIGHT),
        (spec(dtype="os"), EIGHT),
        (spec(dtype=""), EIGHT),
        (spec(shape=[-1, -2], stride=[1, 1]), EIGHT),
        (spec(shape=[-2]), EIGHT),
        (spec(shape=[math.inf]), EIGHT),
        (spec(shape=[math.nan]), EIGHT),
        (spec(shape=["two"]), EIGHT),
        (spec(shape=2), EIGHT),
        (spec(shape=[0, 1 << 80], stride=[1, 1]), b""),
        (spec(shape=[1 << 40]), EIGHT),
        (spec(stride=[1, 1]), EIGHT),
        (spec(stride=[-1]), EIGHT),
        (spec(stride=[1 << 50]), EIGHT),
        (spec(stride=[1 << 90]), EIGHT),
    ],
)
def test_an_answer_of_another_form_ends_the_child_and_is_one_line(monkeypatch, answer, payload):
    bench = answered(monkeypatch, answer, payload)
    child = bench._child
    with pytest.raises(WorkerFailed, match="answered outside the protocol") as caught:
        bench.call(Deadline.after(5))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert child.closed == 1
    with pytest.raises(WorkerFailed, match="is gone"):
        bench.call(Deadline.after(5))


def test_a_deeply_nested_answer_ends_the_child(monkeypatch):
    nested: dict = {"value": 1}
    for _ in range(5000):
        nested = {"list": [nested]}
    bench = answered(monkeypatch, {**GOOD, "skeleton": nested}, EIGHT)
    with pytest.raises(WorkerFailed, match=r"outside the protocol \(RecursionError"):
        bench.call(Deadline.after(5))


@pytest.mark.parametrize("time_ns", [None, 0, -1.0, math.nan, math.inf, 0.0])
def test_a_time_that_no_clock_shows_ends_the_child(monkeypatch, time_ns):
    bench = answered(monkeypatch, {**GOOD, "time_ns": time_ns}, EIGHT)
    with pytest.raises(WorkerFailed, match=r"outside the protocol \(ValueError: a time of"):
        bench.time(Deadline.after(5), None)


@pytest.mark.parametrize("handles", [None, [], [None, None], 5])
def test_handles_that_do_not_fit_the_inputs_end_the_child(monkeypatch, handles):
    with pytest.raises(WorkerFailed, match="outside the protocol"):
        answered(monkeypatch, {"handles": handles}, b"", "allocate")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.arange(3.0).expand(2, 3),
        torch.arange(12.0).view(2, 6)[:, ::2],
        torch.arange(8.0).as_strided((3, 4), (2, 1)),
        torch.arange(6.0).to(torch.float8_e4m3fn).view(2, 3).t(),
        torch.zeros(0, 3).t(),
    ],
    ids=["transposed", "expanded", "every second", "overlapping", "float8", "empty"],
)
def test_an_output_keeps_its_layout_and_its_values(monkeypatch, tensor):
    answer = {**GOOD, "specs": [TensorSpec.of(tensor).to_json()]}
    output = answered(monkeypatch, answer, tensor_to_bytes(tensor)).call(Deadline.after(5)).output
    assert (output.shape, output.dtype) == (tensor.shape, tensor.dtype)
    assert output.is_contiguous() == tensor.is_contiguous()
    assert output.double().equal(tensor.double())


def test_inputs_that_cannot_be_handed_over_are_the_problems_fault(monkeypatch):
    monkeypatch.setattr(bench_module, "Child", type("Hostile", (HostileChild,), {"answers": {}}))
    with pytest.raises(BrokenTask, match=r"these inputs cannot be handed to a submission: .*Point is no tensor"):
        Bench(None, CPU).put(Point(1, 2), Deadline.after(5))
