"""The bytes that a decode must move, against the tensors themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.problem.problem import open_problem

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def loaded():
    """The problem's truth, and inputs of two sequences of 64 tokens."""
    problem = open_problem(ROOT)
    data = problem.load_module("reference").generate_input(batchsize=2, qseqlen=1, kvseqlen=64, seed=1)
    return problem.load_module("truth"), data


@pytest.mark.parametrize("name", ["bf16", "fp8", "mxfp4"])
def test_the_bytes_are_those_of_q_both_indptrs_the_declared_kv_and_the_output(loaded, name):
    truth, data = loaded
    q, kv_data, qo_indptr, kv_indptr, _ = data
    rest = q.nbytes + qo_indptr.nbytes + kv_indptr.nbytes + 2 * 16 * 512 * 2
    kv = kv_data[name] if name == "bf16" else kv_data[name][0]
    # Of MXFP4's 24 scale bytes a row, 18 are used.
    scales = 128 * 18 if name == "mxfp4" else 0
    assert truth.bytes_needed(data, {"kv": name}) == rest + kv.nbytes + scales


def test_values_in_another_format_than_keys_are_read_besides(loaded):
    truth, data = loaded
    mixed = truth.bytes_needed(data, {"kv": {"keys": "fp8", "values": "bf16"}})
    assert mixed == truth.bytes_needed(data, {"kv": "fp8"}) + 128 * 512 * 2
