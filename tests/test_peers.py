"""Public kernels as submissions: what runs here is right, what does not is named, and their layouts are right.

The packages of tests/peer_packages stand in for the real ones: the same signatures and checks, in plain torch. They
show that an adapter hands over pages, lengths and scales as the package wants them, and nothing about real kernels.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_bench import FAKE_GPU

from bench.peers import measure as measure_module
from bench.peers.measure import ADAPTERS, FOLDER, Peer, PeerResult, measure, peers
from bench.peers.run import command
from bench.peers.table import peers_json
from harness.cli.main import run
from harness.evaluation.evaluate import Request, evaluate
from harness.problem.problem import Problem, open_problem
from harness.problem.variant import read_variant
from harness.targets.machine import open_machine

ROOT = Path(__file__).parents[1]
PACKAGES = Path(__file__).parent / "peer_packages"
CPU = open_machine("cpu")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return open_problem(ROOT)


@pytest.fixture
def stand_ins(monkeypatch) -> None:
    """Children find the stand-ins for the peers' packages."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("shape", ["S1", "S2"])
def test_an_adapter_is_exact_on_a_slice_through_its_packages_own_signature(problem, stand_ins, name, shape):
    variant = read_variant(FOLDER / f"{name}.py")
    (case,) = evaluate(problem, variant, Request("test", device="cpu", shapes=shape), machine=CPU).cases
    assert case.status == "pass", case.reason
    assert case.exact.declared_by == "variant"
    # bf16 arithmetic shows 0.002 and e4m3 queries 0.03: a wrong page or scale shows 0.3 and more.
    assert case.exact.error < (0.04 if name == "flashmla_fp8" else 0.004)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_refuses_sequences_of_another_length(stand_ins, name, monkeypatch):
    import runpy

    import torch

    monkeypatch.syspath_prepend(str(PACKAGES))
    kernel = runpy.run_path(str(FOLDER / f"{name}.py"))["custom_kernel"]
    q, kv = torch.zeros((2, 16, 576), dtype=torch.bfloat16), torch.zeros((100, 1, 576), dtype=torch.bfloat16)
    data = {"bf16": kv, "fp8": (kv.to(torch.float8_e4m3fn), torch.ones(1))}
    with pytest.raises(ValueError, match="takes 2 sequences of one query and 64 keys"):
        kernel((q, data, None, None, {"batch_size": 2, "kv_seq_len": 64, "sm_scale": 1.0}))


def test_every_adapter_says_what_it_is_and_how_to_get_it():
    assert [peer.variant.path.stem for peer in peers()] == list(ADAPTERS)
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "measure", "run", "table"} == set(ADAPTERS)
    assert all(peer.name and peer.module and peer.package and peer.get for peer in peers())
    # None of them says that it takes ragged sequences or several queries.
    assert all(peer.variant.declared["ragged"] is False for peer in peers())
    assert all(peer.variant.declared["q_seq_len"] == [1] for peer in peers())


def test_a_missing_package_is_named_with_how_to_get_it_and_a_wrong_target_too(monkeypatch):
    monkeypatch.setattr(measure_module.importlib.util, "find_spec", lambda name: None if name == "vllm" else object())
    found = {peer.variant.path.stem: peer for peer in peers()}
    h200, mi355 = FAKE_GPU, replace(FAKE_GPU, kind="hip", target="gfx950")
    assert found["vllm_triton"].missing(h200) == "vllm is not installed (pip install vllm, which pins its own torch)"
    assert found["flashmla_fp8"].missing(mi355) == "it needs sm_90 (here: gfx950)"
    assert found["flashmla_fp8"].missing(CPU) == "it needs sm_90 (here: no GPU)"
    assert found["sdpa"].missing(CPU) is None
    assert found["flashmla_bf16"].missing(h200) is None


def test_absent_peers_are_no_failure_and_what_is_there_is_judged(problem, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure_module.importlib.util, "find_spec", lambda name: object() if name == "torch" else None)
    target = tmp_path / "peers.json"
    assert run(["--shapes", "S1", "--device", "cpu", "--problem", str(ROOT), "--json", str(target)], command) == 0
    printed = capsys.readouterr().out
    assert "torch SDPA, bf16" in printed
    assert "FlashMLA fp8: sgl-flash-mla is not installed (pip install --no-deps sgl-flash-mla==1.0.0)" in printed
    assert "No device was timed" in printed
    document = json.loads(target.read_text())["peers"]
    assert [peer["name"] for peer in document if peer["missing"] is None] == ["torch SDPA, bf16"]
    sdpa = document[0]
    assert sdpa["version"]
    assert sdpa["evaluation"]["cases"][0]["exact"] == "pass"
    assert sdpa["evaluation"]["cases"][0]["queued_median"] is None
    assert document[1]["evaluation"] is None


def test_a_peer_that_is_there_and_wrong_is_a_failure(problem, tmp_path, monkeypatch, capsys):
    source = (FOLDER / "sdpa.py").read_text().replace('config["sm_scale"]', '0.5 * config["sm_scale"]')
    wrong = tmp_path / "wrong.py"
    wrong.write_text(source)
    results = list(measure(problem, [Peer("wrong", read_variant(wrong))], CPU, shapes="S1"))
    assert [result.passed for result in results] == [False]
    monkeypatch.setattr(measure_module, "peers", lambda: [])
    assert run([str(wrong), "--shapes", "S1", "--device", "cpu", "--problem", str(ROOT)], command) == 1
    assert "exact: error" in capsys.readouterr().out


def test_a_users_mistake_is_one_line_and_exit_code_2(capsys):
    assert run(["--shapes", "S9", "--device", "cpu", "--problem", str(ROOT)], command) == 2
    assert "unknown shape 'S9'" in capsys.readouterr().err


def test_json_has_a_version_and_a_reason_for_what_is_missing():
    (peer, *_) = peers()
    (entry,) = peers_json([PeerResult(peer, None, "it needs a GPU")])["peers"]
    assert list(entry) == ["name", "file", "package", "version", "missing", "evaluation"]
    assert (entry["missing"], entry["evaluation"]) == ("it needs a GPU", None)
