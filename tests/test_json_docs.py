"""Every key of every `--json` document stands in the docs; those of `ab` are held in test_compare_rendering."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_problem import furnish
from scripted_bench import InProcess
from test_records_pick import prepared

from harness.cli.main import run
from harness.evaluation import evaluate as evaluate_module
from harness.evaluation import merge_check

DOCS = Path(__file__).parents[1] / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("json.md", "measuring.md", "comparing.md"))
# Keys that are data: names of shapes, variants, probes, instructions and constants.
DATA = (
    "shapes",
    "probes",
    "failures",
    "constants",
    "matrix",
    "matrix_in_loop",
    "wide_loads",
    "shared_reads",
    "scalars",
    "failed",
    "types",
    "options",
)


def keys(value: Any, inside: str = "") -> Iterator[str]:
    """The keys of a document, at any depth, but for those that are data."""
    if isinstance(value, dict):
        for key, item in value.items():
            if inside not in DATA:
                yield key
            yield from keys(item, key if inside not in DATA else "")
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


@pytest.fixture
def here(affine, monkeypatch):
    furnish(affine)
    monkeypatch.chdir(affine.root)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for module in (evaluate_module, merge_check):
        monkeypatch.setattr(module, "Bench", InProcess)
    return affine.root


@pytest.mark.parametrize(
    "command",
    ["eval any_rows", "lint submission.py", "build --target portable --force", "variants", "doctor", "history", "pick",
     "inspect any_rows --shapes S1 --estimate", "check any_rows --shapes S1"],
)  # fmt: skip
def test_every_key_of_a_commands_document_is_documented(here, capsys, command):
    if command in ("history", "variants", "pick"):
        prepared(here)
    run([*command.split(), "--json", "-"])
    document = json.loads(capsys.readouterr().out)
    found = set(keys(document))
    assert found
    assert {key for key in found if f"`{key}`" not in TEXT} == set()
