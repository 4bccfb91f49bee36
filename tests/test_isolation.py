"""What a submission finds in its process: its own folder and channel, and nothing of the evaluation."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from harness.evaluation.evaluate import Request, evaluate
from harness.problem.problem import open_problem
from harness.problem.variant import read_variant

REPOSITORY = Path(__file__).parents[1]

SPY = """
import importlib, json, os, sys

def importable(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True

seen = {
    "importable": [name for name in NAMES if importable(name)],
    "environment": dict(os.environ),
    "argv": sys.argv,
    "path": sys.path,
    "cwd": os.getcwd(),
    "files": sorted(os.listdir()),
    "modules": sorted(name for name in sys.modules if name.partition(".")[0] in ("harness", "truth", "reference")),
    "stdin": sys.stdin.read(),
}
descriptors = {}
for name in os.listdir("/proc/self/fd"):
    try:
        descriptors[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass  # the descriptor of the listing itself
seen["descriptors"] = descriptors
print(json.dumps(seen))

def custom_kernel(data):
    x, config = data
    return x * config["slope"] + 1
"""
ALLOWED = ("reference", "harness.evaluation.protocol")  # so that a name that can be imported is seen to be
FORBIDDEN = (
    "truth", "probe_inputs", "task", "eval", "tests", "conftest", "harness.checking", "harness.checking.truth",
    "harness.problem", "harness.problem.case", "harness.evaluation.referee", "harness.evaluation.bench",
    "harness.evaluation.evaluate", "harness.evaluation.child", "harness.compare", "harness.report", "harness.cli",
    "harness.assembly", "harness.lint", "harness.timing", "harness.targets",
)  # fmt: skip


@pytest.fixture(scope="module")
def spied(tmp_path_factory):
    """What one child saw, with a telling environment around it: (seen, problem folder, temporary folder, extra)."""
    root = tmp_path_factory.mktemp("isolation")
    problem = open_problem(Path(shutil.copytree(REPOSITORY / "tests/problems/affine", root / "affine")))
    extra = root / "users_own_packages"
    extra.mkdir()
    temporary = root / "temporary"
    temporary.mkdir()
    path = root / "spy.py"
    path.write_text(SPY.replace("NAMES", repr((*ALLOWED, *FORBIDDEN))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), "", str(extra)]))
        for name in ("POPCORN_FD", "POPCORN_SEED", "HARNESS_SEED", "HARNESS_ANYTHING", "CI_JOB", "PYTEST_ANYTHING"):
            patch.setenv(name, "31337")
        patch.setenv("USERS_OWN", "kept")
        patch.setattr(sys, "argv", ["harness", "eval", "--seed", "31337"])
        secret = os.open(path, os.O_RDONLY)
        os.set_inheritable(secret, True)
        try:
            result = evaluate(problem, read_variant(path), Request("test", "cpu", secret_seed=31337))
        finally:
            os.close(secret)
    assert result.passed, result.cases[0].reason
    return json.loads(result.stdout), problem, temporary, extra


def test_the_truth_and_the_rest_of_the_harness_cannot_be_imported(spied):
    assert spied[0]["importable"] == list(ALLOWED)


def test_no_path_of_the_child_leads_to_the_repository_or_the_problem_folder(spied):
    seen, problem, _, extra = spied
    paths = [str(Path(path).resolve()) for path in seen["path"]]
    assert not any(path in (str(REPOSITORY), str(problem.root)) for path in paths)
    assert str(extra) in paths  # what the user added stays


def test_the_environment_names_nothing_of_the_evaluation(spied):
    environment = spied[0]["environment"]
    # PYTEST_CURRENT_TEST is always set around this test: a submission must not see that it is being tested.
    assert not [name for name in environment if name.startswith(("POPCORN_", "HARNESS_", "PYTEST_", "CI_"))]
    assert "31337" not in " ".join(environment.values())
    assert environment["USERS_OWN"] == "kept"
    assert environment["TRITON_INTERPRET"] == "1"


def test_the_arguments_are_those_of_a_plain_run(spied):
    assert spied[0]["argv"] == ["submission.py"]


def test_standard_input_is_empty(spied):
    assert spied[0]["stdin"] == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_open_descriptors_are_the_standard_three_and_the_childs_own_channel(spied):
    descriptors = spied[0]["descriptors"]
    assert descriptors.pop("0") == "/dev/null"
    assert descriptors.pop("1").startswith("pipe:")
    assert descriptors.pop("2").startswith("pipe:")
    (channel,) = descriptors.values()
    assert channel.startswith("socket:")


def test_the_working_folder_holds_the_tasks_files_without_the_evaluator_and_the_truth(spied):
    assert [name for name in spied[0]["files"] if name != "__pycache__"] == ["reference.py", "submission.py"]


def test_the_working_folder_lies_in_the_temporary_folder_and_is_gone_afterwards(spied):
    seen, _, temporary, _ = spied
    assert Path(seen["cwd"]).is_relative_to(temporary.resolve())
    assert not Path(seen["cwd"]).exists()
    assert list(temporary.iterdir()) == []


def test_only_the_childs_own_part_of_the_harness_is_loaded(spied):
    loaded = [name for name in spied[0]["modules"] if name not in ALLOWED]
    assert set(loaded) <= {
        "harness",
        "harness.errors",
        "harness.evaluation",
        "harness.evaluation.cpu_redirect",
        "harness.evaluation.gpu_clock",
        "harness.evaluation.poison",
        "harness.evaluation.process_tree",
        "harness.evaluation.protocol",
        "harness.evaluation.shared_memory",
        "harness.evaluation.shield",
        "harness.evaluation.worker",
    }
