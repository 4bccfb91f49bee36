"""Submissions that call aiter as public ones do run on its stand-in, and the check sees which keys they read.

The ways to call are those of public submissions to this leaderboard; the files in tests/aiter_callers are our own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from adversary_corpus import ROOT, SHAPE, outcome

from harness.evaluation.check import check_file
from harness.problem.problem import open_problem
from harness.problem.variant import read_variant
from harness.targets.machine import open_machine

CALLERS = ROOT / "tests" / "aiter_callers"
HONEST = sorted(path.stem for path in CALLERS.glob("*.py") if path.stem != "pages_of_eight")


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_caller_of_aiter_passes_every_probe_on_the_stand_in(name: str) -> None:
    seen = outcome(CALLERS / f"{name}.py", device="cpu")
    assert seen.official == "pass" and seen.honest, seen.details


def test_the_page_trick_of_public_submissions_fails_for_the_keys_that_it_skips() -> None:
    seen = outcome(CALLERS / "pages_of_eight.py", device="cpu", until_first_failure=True)
    assert seen.exact == "fail"


@pytest.mark.parametrize("name", ["without_a_schedule", "mxfp4_dequantised"])
def test_the_result_says_that_it_comes_from_the_stand_in(name: str) -> None:
    problem = open_problem(ROOT)
    result = check_file(
        problem,
        read_variant(CALLERS / f"{name}.py"),
        open_machine("cpu"),
        shapes=[problem.shape(SHAPE)],
        other_shapes=[],
        probes={},
        until_first_failure=True,
    )
    assert result.shapes[0].stand_in
