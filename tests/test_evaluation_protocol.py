"""What is sent comes back as it was; what the child says is bounded, typed and never evaluated."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
from collections import OrderedDict, namedtuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import WorkerFailed
from harness.evaluation.protocol import (
    MAX_HEADER_BYTES,
    Deadline,
    DeadlinePassed,
    TensorSpec,
    flatten,
    rebuild,
    receive,
    send,
    tensor_from_bytes,
    tensor_to_bytes,
)

SOON = 0.3


@pytest.fixture
def channels():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def raw_frame(header: bytes, payload: bytes = b"") -> bytes:
    return struct.pack("!IQ", len(header), len(payload)) + header + payload


# -- frames -------------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), st.text(), st.lists(st.booleans()))),
    st.binary(max_size=2000),
)
def test_a_frame_arrives_as_it_was_sent(header, payload):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, header, payload)
        assert receive(theirs) == (header, payload)


def test_a_frame_larger_than_the_sockets_buffer_arrives_whole(channels):
    ours, theirs = channels
    payload = bytes(range(256)) * (20 << 12)  # 20 MiB
    sender = threading.Thread(target=send, args=(ours, {"a": 1}, payload))
    sender.start()
    assert receive(theirs) == ({"a": 1}, payload)
    sender.join()


def test_two_frames_do_not_run_into_each_other(channels):
    ours, theirs = channels
    send(ours, {"a": 1}, b"first")
    send(ours, {"b": 2})
    assert receive(theirs) == ({"a": 1}, b"first")
    assert receive(theirs) == ({"b": 2}, b"")


def test_a_header_over_its_bound_is_refused_before_it_is_read(channels):
    ours, theirs = channels
    theirs.sendall(struct.pack("!IQ", MAX_HEADER_BYTES + 1, 0))
    with pytest.raises(WorkerFailed, match=f"sent {MAX_HEADER_BYTES + 1} . 0 bytes, more than an answer has"):
        receive(ours, Deadline.after(SOON))


@pytest.mark.parametrize("length", [101, 1 << 40, (1 << 64) - 1])
def test_a_payload_over_its_bound_is_refused_before_memory_is_taken_for_it(channels, length):
    ours, theirs = channels
    theirs.sendall(struct.pack("!IQ", 2, length) + b"{}")
    with pytest.raises(WorkerFailed, match="more than an answer has"):
        receive(ours, Deadline.after(SOON), max_payload_bytes=100)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"null", b"4", b'"text"', b"{", b"\xff\xfe", b"{'a': 1}", b"9" * 5000, b"[" * 9**5, b'{"a":' * 9**5],
    ids=lambda header: repr(header[:12]),
)  # fmt: skip
def test_a_header_that_is_no_json_object_is_refused(channels, header):
    ours, theirs = channels
    sender = threading.Thread(target=theirs.sendall, args=(raw_frame(header),))
    sender.start()
    with pytest.raises(WorkerFailed, match="answered outside the protocol"):
        receive(ours, Deadline.after(5))
    sender.join()


@pytest.mark.parametrize("sent", [b"", b"\0" * 5, raw_frame(b'{"a": 1}')[:-2]])
def test_a_channel_that_closes_in_the_middle_is_an_end_of_file(channels, sent):
    ours, theirs = channels
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(EOFError):
        receive(ours)


@pytest.mark.parametrize("sent", [b"", b"\0" * 5, raw_frame(b'{"a": 1}')[:-2], raw_frame(b"{}", b"payload")[:-1]])
def test_a_frame_that_does_not_come_to_its_end_runs_into_the_deadline(channels, sent):
    ours, theirs = channels
    theirs.sendall(sent)
    with pytest.raises(DeadlinePassed):
        receive(ours, Deadline.after(0.05))


def test_sending_to_a_side_that_does_not_read_runs_into_the_deadline(channels):
    ours, _ = channels
    began = time.monotonic()
    with pytest.raises(DeadlinePassed):
        send(ours, {}, bytes(16 << 20), Deadline.after(SOON))
    assert time.monotonic() - began < 5


def test_sending_to_a_side_that_has_gone_is_an_os_error(channels):
    ours, theirs = channels
    theirs.close()
    with pytest.raises(OSError):
        send(ours, {}, bytes(1 << 20), Deadline.after(5))


def test_the_earlier_of_two_deadlines_counts():
    early, late = Deadline.after(1), Deadline.after(2)
    assert early.earlier_of(late) is late.earlier_of(early) is early
    assert Deadline.after(-1).passed
    assert Deadline.after(-1).remaining_s == 0
    assert not Deadline.after(math.inf).passed


# -- values -------------------------------------------------------------------------------------------------------

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
tensors = st.integers(0, 5).map(lambda size: torch.arange(float(size)))
values = st.recursive(
    st.one_of(scalars, tensors),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


def alike(a: object, b: object) -> bool:
    """Equal in type and content, tensors by identity."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a is b
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[key], b[key]) for key in a)
    return a == b


@given(values)
def test_nested_values_come_back_from_their_skeleton_through_json(value):
    leaves: list[torch.Tensor] = []
    skeleton = json.loads(json.dumps(flatten(value, leaves)))
    assert alike(rebuild(skeleton, leaves), value)


class Subclass(torch.Tensor):
    pass


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (torch.zeros(2).as_subclass(Subclass), "Subclass"),
        (torch.nn.Parameter(torch.zeros(2)), "Parameter"),
        (Point(1, 2), "Point"),
        (torch.zeros(2).shape, "torch.Size"),
        (object(), "builtins.object"),
        (b"bytes", "builtins.bytes"),
        ({1, 2}, "builtins.set"),
        (1j, "builtins.complex"),
        (torch.float32, "torch.dtype"),
        (lambda: None, "builtins.function"),
        ({(1, 2): 3}, "builtins.dict"),
        ({None: 3}, "builtins.dict"),
        (torch.zeros(2).numpy(), "numpy.ndarray"),
        ([[torch.zeros(2).as_subclass(Subclass)]], "Subclass"),
    ],
)
def test_other_types_are_refused_by_name(value, name):
    with pytest.raises(TypeError, match=rf"{name} is no tensor, number, text, tuple, list or dictionary"):
        flatten(value, [])


def test_subclasses_of_lists_and_dictionaries_become_plain_ones():
    value = rebuild(flatten(OrderedDict(a=type("L", (list,), {})([1])), []), [])
    assert (type(value), type(value["a"]), value) == (dict, list, {"a": [1]})


@pytest.mark.parametrize(
    "skeleton", [{}, {"tensor": 0, "value": 1}, {"tensor": 5}, {"set": []}, {"dict": [1]}, {"tuple": [[]]}, [], None]
)
def test_a_skeleton_that_is_none_is_refused(skeleton):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError, IndexError)):
        rebuild(skeleton, [torch.zeros(1)])


# -- tensors ------------------------------------------------------------------------------------------------------

DTYPES = [
    dtype
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
        "float32", "float64", "complex64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
        "float8_e8m0fnu", "float4_e2m1fn_x2",
    )
    if (dtype := getattr(torch, name, None)) is not None
]  # fmt: skip


def of_dtype(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    count = math.prod(shape) * dtype.itemsize
    data = torch.arange(count, dtype=torch.int64).mul(37).remainder(2 if dtype == torch.bool else 251).to(torch.uint8)
    return data.view(dtype).view(shape) if count else torch.empty(shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (4, 3, 2)], ids=str)
def test_every_dtype_and_shape_survives_the_way_to_bytes_and_back(dtype, shape):
    tensor = of_dtype(dtype, *shape)
    spec = TensorSpec.from_json(json.loads(json.dumps(TensorSpec.of(tensor).to_json())))
    assert spec == TensorSpec.of(tensor)
    data = tensor_to_bytes(tensor)
    assert len(data) == spec.bytes == math.prod(shape) * dtype.itemsize
    back = tensor_from_bytes(spec, data)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert tensor_to_bytes(back) == data
    assert (spec.empty().dtype, spec.empty().shape, spec.empty().stride()) == (dtype, tensor.shape, tensor.stride())


def test_bytes_are_the_values_in_row_major_order_whatever_the_strides():
    tensor = torch.arange(6, dtype=torch.int32).view(2, 3)
    for same in (tensor, tensor.t().contiguous().t(), torch.stack([tensor, tensor], 2)[:, :, 0]):
        assert tensor_to_bytes(same) == struct.pack("=6i", *range(6))
    assert tensor_to_bytes(tensor.t()) == struct.pack("=6i", 0, 3, 1, 4, 2, 5)
    assert tensor_to_bytes(torch.ones(1, requires_grad=True).expand(3)) == struct.pack("=3f", 1, 1, 1)


@pytest.mark.parametrize("length", [0, 23, 25])
def test_bytes_of_the_wrong_length_are_refused(length):
    with pytest.raises(ValueError, match=f"{length} bytes for a tensor of 24"):
        tensor_from_bytes(TensorSpec((2, 3), (3, 1), "float32", False), bytes(length))
