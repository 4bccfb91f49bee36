"""How far estimates from compiled code are from measured times: `python -m bench.cost_model`.

Inspects the variants and designs of h200_means.json for sm_90, estimates the shapes that were measured there, and
prints a table in Markdown with Spearman's rank correlation and the worst ratio. Needs no GPU. `--write FOLDER` writes
the designs that are no variants as files instead, to be timed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.cost_model_designs import designs
from harness.inspection.estimate import estimate_shapes
from harness.inspection.inspect import inspect_file
from harness.problem.problem import open_problem

ROOT = Path(__file__).parents[1]


def pairs() -> list[tuple[str, str, float, float, float]]:
    """Variant, shape, bound, estimate and measured mean, in µs."""
    problem = open_problem(ROOT)
    means = json.loads((Path(__file__).parent / "h200_means.json").read_text(encoding="utf-8"))["means"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        written = write_designs(Path(folder))
        for name, measured in means.items():
            shapes = [shape for shape in problem.shapes if shape.label in measured]
            variant = problem.variant(str(written.get(name, name)))
            for each in estimate_shapes(inspect_file(problem, variant, "sm_90", shapes)):
                found.append((name, each.shape, each.bound / 1e3, each.estimate / 1e3, measured[each.shape]))
    return found


def write_designs(folder: Path) -> dict[str, Path]:
    """Each design as FOLDER/NAME.py; name → path."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, source in designs(open_problem(ROOT)).items():
        written[name] = folder / f"{name}.py"
        written[name].write_text(source, encoding="utf-8")
    return written


def main() -> None:
    """Print the table and what it comes to."""
    from scipy.stats import spearmanr

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    folder = parser.parse_args().write
    if folder is not None:
        write_designs(folder)
        return
    found = pairs()
    print("| variant | shape | bound | estimate | measured | estimate / measured |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, shape, bound, estimate, measured in found:
        print(f"| {name} | {shape} | {bound:.1f} | {estimate:.1f} | {measured:g} | {estimate / measured:.2f} |")
    estimates, measured = [row[3] for row in found], [row[4] for row in found]
    ratios = [estimate / mean for estimate, mean in zip(estimates, measured, strict=True)]
    print(f"\n{len(found)} pairs, Spearman's rank correlation {spearmanr(estimates, measured).statistic:.2f}; ")
    print(f"estimate over measured from {min(ratios):.2f} to {max(ratios):.2f}; bound above measured: ", end="")
    print(sum(row[2] > row[4] for row in found))
    for label in dict.fromkeys(row[1] for row in found):
        own = [row for row in found if row[1] == label]
        by_estimate = " < ".join(row[0] for row in sorted(own, key=lambda row: row[3]))
        by_measure = " < ".join(row[0] for row in sorted(own, key=lambda row: row[4]))
        rank = spearmanr([row[3] for row in own], [row[4] for row in own]).statistic
        print(f"{label}: {len(own)} designs, {rank:.1f}; estimated {by_estimate}; measured {by_measure}")


if __name__ == "__main__":
    main()
