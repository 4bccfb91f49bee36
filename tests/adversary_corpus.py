"""Runs `harness check` over the corpus of bad and honest kernels, and writes the table of docs/checking.md.

python tests/adversary_corpus.py            run everything that can run here, each until its first failure
python tests/adversary_corpus.py --write    with every probe, and put the table into docs/checking.md
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "adversaries"
DOCUMENT = ROOT / "docs" / "checking.md"
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"
# One small shape is enough: every file takes any shape, and its flaw does not depend on it.
SHAPE = "4x1024"


@dataclass(frozen=True)
class Entry:
    """One file of the corpus and its literal header."""

    path: Path
    header: dict

    @property
    def name(self) -> str:
        """The file's name without `.py`."""
        return self.path.stem

    @property
    def needs_gpu(self) -> bool:
        """Whether its flaw, or its honesty, shows on a GPU only."""
        return self.header["needs"] == "cuda"


@dataclass(frozen=True)
class Outcome:
    """What the two verdicts and the probes said of one file."""

    name: str
    official: str
    exact: str
    failed_probes: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def honest(self) -> bool:
        """Whether it would be believed."""
        return self.exact == "pass" and not self.failed_probes


def entries(kind: str) -> list[Entry]:
    """The files of `bad` or `honest`, by name; headers are read without running anything."""
    variable = {"bad": "ADVERSARY", "honest": "HONEST"}[kind]
    found = []
    for path in sorted((CORPUS / kind).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == variable:
                found.append(Entry(path, ast.literal_eval(node.value)))
    return found


@cache
def _problem():
    from harness.problem.problem import open_problem

    return open_problem(ROOT)


def outcome(path: Path, *, device: str = "auto", until_first_failure: bool = False) -> Outcome:
    """Check one file with every probe, or until the first thing fails."""
    from harness.checking.probes import PROBES
    from harness.evaluation.check import check_file
    from harness.problem.variant import read_variant
    from harness.targets.machine import open_machine

    problem = _problem()
    result = check_file(
        problem,
        read_variant(path),
        open_machine(device),
        shapes=[problem.shape(SHAPE)],
        other_shapes=[problem.shape("32x1024")],
        probes=PROBES,
        until_first_failure=until_first_failure,
    ).shapes[0]
    bad = {name: probe for name, probe in result.probes.items() if probe.status == "fail"}
    details = tuple(f"{name}: {probe.detail}" for name, probe in bad.items())
    if result.exact.status == "fail":
        details = (f"exact: {result.exact.detail}", *details)
    return Outcome(path.stem, result.official.status, result.exact.status, tuple(bad), details)


def _outcome_of(path: Path) -> Outcome:
    return outcome(path, until_first_failure="--write" not in sys.argv)


def table(bad: Sequence[Entry], outcomes: dict[str, Outcome]) -> str:
    """Classes × verdicts as Markdown, one row a file."""
    lines = ["| class | file | official | exact | probes that fail it |", "| --- | --- | --- | --- | --- |"]
    for entry in sorted(bad, key=lambda entry: (entry.header["class"], entry.name)):
        seen = outcomes.get(entry.name)
        if seen is None:
            row = ("–", "–", "needs a GPU")
        else:
            row = (seen.official, seen.exact, ", ".join(seen.failed_probes) or "–")
        lines.append(f"| {entry.header['class']} | {entry.name} | {' | '.join(row)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the corpus and print or write the table."""
    import torch

    on_gpu = torch.cuda.is_available()
    bad, honest = entries("bad"), entries("honest")
    chosen = [entry for entry in bad + honest if on_gpu or not entry.needs_gpu]
    outcomes: dict[str, Outcome] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for entry, seen in zip(chosen, pool.map(_outcome_of, [entry.path for entry in chosen]), strict=True):
            outcomes[entry.name] = seen
            verdict = "believed" if seen.honest else "refused"
            mistaken = seen.honest == (entry in bad)
            print(f"{'MISTAKEN ' if mistaken else ''}{entry.name}: {verdict}", *seen.details, sep="\n    ", flush=True)
    print(table(bad, outcomes))
    if "--write" in sys.argv:
        text = DOCUMENT.read_text()
        before, _, rest = text.partition(BEGIN)
        after = rest.partition(END)[2]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table(bad, outcomes)}\n{END}{after}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
