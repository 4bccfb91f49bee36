"""Each folder of assembly_cases is a merge: a.py and b.py before, expected.py after.

`python tests/test_assembly_cases.py` writes the expected files anew; read the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from assembly_cases.problem_folder import DISPATCH, load_file, make_problem, merge, run_source

CASES = Path(__file__).parent / "assembly_cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/a.py"))
INPUTS = [4, 9, 4]


def merged(case: str, root: Path) -> str:
    """The merged source of a case."""
    texts = {path.stem: path.read_text() for path in sorted((CASES / case).glob("*.py")) if path.stem != "expected"}
    return merge(make_problem(root, {"dispatch": DISPATCH, **texts})).source


@pytest.mark.parametrize("case", NAMES)
def test_merge_gives_the_expected_text(case: str, tmp_path: Path) -> None:
    assert merged(case, tmp_path) == (CASES / case / "expected.py").read_text()


@pytest.mark.parametrize("case", NAMES)
def test_merged_file_answers_as_each_part_alone(case: str, tmp_path: Path) -> None:
    make_problem(tmp_path, {path.stem: path.read_text() for path in (CASES / case).glob("*.py")})
    together = run_source((CASES / case / "expected.py").read_text())
    alone = {n: load_file(tmp_path / "variants" / f"{name}.py") for n, name in ((1, "a"), (2, "b"), (3, "b"))}
    # Two shapes by turns, twice: state that the parts shared would show in the second round.
    for x in INPUTS:
        for n in (1, 2):
            data = {"n": n, "x": x}
            assert together["custom_kernel"](data) == alone[n].custom_kernel(data)


if __name__ == "__main__":
    import tempfile

    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            (CASES / name / "expected.py").write_text(merged(name, Path(folder)))
