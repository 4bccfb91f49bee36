"""A problem folder of pure-Python variants, for the tests of the merge: shape `n` is the input {"n": n, …}."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.assembly.merge import Assembly, assemble
from harness.assembly.winners import read_winners
from harness.problem.problem import Problem, open_problem

TASK = """\
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
lang: "py"
description: "pure Python"
config: {"main": "eval.py"}
benchmarks:
  - {"n": 1, "seed": 1}
  - {"n": 2, "seed": 2}
  - {"n": 3, "seed": 3}
"""
DISPATCH = '''\
"""The shape of an input."""


def shape_key(data):
    """The shape."""
    return (data["n"],)
'''
PLATFORM = '[platform]\nleaderboard = "amd-mixed-mla"\ngpu = "MI355X"\n'


def winners_text(shapes: Mapping[str, str], fallback: str, target: str = "portable") -> str:
    """A winners.toml for one target: shapes maps a label to its variant."""
    lines = [f'"{label}" = {{ variant = "{variant}", why = "a test" }}' for label, variant in shapes.items()]
    table = "\n".join(lines)
    return f'{PLATFORM}\n[{target}]\nfallback = "{fallback}"\n\n[{target}.shapes]\n{table}\n'


def make_problem(root: Path, files: Mapping[str, str | bytes], winners: str | None = None) -> Problem:
    """A problem in `root` with these files in variants/ (name without .py → text).

    Without `winners`, a holds shape 1, b holds shape 2 where there is one, and the last of them is the fallback.
    """
    variants = root / "variants"
    variants.mkdir(parents=True, exist_ok=True)
    (root / "task.yml").write_text(TASK)
    for name, text in {"dispatch": DISPATCH, **files}.items():
        data = text if isinstance(text, bytes) else text.encode()
        (variants / f"{name}.py").write_bytes(data)
    if winners is None:
        shapes = {"1": "a", "2": "b"} if "b" in files else {"1": "a"}
        winners = winners_text(shapes, list(shapes.values())[-1])
    (variants / "winners.toml").write_text(winners)
    return open_problem(root)


def merge(problem: Problem, target: str = "portable") -> Assembly:
    """Merge by the problem's winners.toml."""
    return assemble(problem, target, read_winners(problem.variants_folder / "winners.toml", problem))


def merge_files(root: Path, files: Mapping[str, str | bytes], winners: str | None = None) -> str:
    """The merged source of `make_problem(root, files, winners)`."""
    return merge(make_problem(root, files, winners)).source


def run_source(source: str, name: str = "merged") -> dict[str, Any]:
    """The namespace of a merged source, run in a module of its own."""
    module = ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    path = f"<{name} {hash(source)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)  # Triton reads the lines
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def load_file(path: Path) -> ModuleType:
    """A variant's file alone, its plain modules importable, as it would run by itself."""
    sys.path.insert(0, str(path.parent))
    before = set(sys.modules)
    try:
        spec = importlib.util.spec_from_file_location(f"alone_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))
        siblings = {sibling.stem for sibling in path.parent.glob("*.py")}
        for name in (set(sys.modules) - before) & siblings:
            del sys.modules[name]
