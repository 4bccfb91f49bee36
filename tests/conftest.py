"""Fixtures that several test files share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.problem.problem import Problem, open_problem
from harness.problem.variant import Variant, read_variant

AFFINE = Path(__file__).parent / "problems" / "affine"


@pytest.fixture
def affine(tmp_path: Path) -> Problem:
    """The affine problem in a folder of its own."""
    return open_problem(Path(shutil.copytree(AFFINE, tmp_path / "affine")))


@pytest.fixture
def submit(tmp_path: Path) -> Callable[[str], Variant]:
    """Write a submission's text to a file and read it back as a variant."""

    def write(source: str, name: str = "candidate") -> Variant:
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        return read_variant(path)

    return write


@pytest.fixture(autouse=True)
def scripted_bandwidth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted GPU reads 1 TB a second: a byte takes a picosecond. Tests on a real GPU measure."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr("harness.targets.bandwidth.measured_bandwidth", lambda: 1e12)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need a GPU where there is none, saying so."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA or ROCm device"))
