"""Not one bad kernel of the corpus is believed, and not one honest kernel is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from adversary_corpus import BEGIN, DOCUMENT, Entry, entries, outcome

BAD, HONEST = entries("bad"), entries("honest")
GPU = {True: [pytest.mark.gpu], False: []}


def _parameters(found: list[Entry]):
    return [pytest.param(entry, id=entry.name, marks=GPU[entry.needs_gpu]) for entry in found]


@pytest.mark.parametrize("entry", _parameters(BAD))
def test_a_bad_kernel_is_not_believed(entry: Entry):
    seen = outcome(entry.path, until_first_failure=True)
    assert not seen.honest, f"{entry.name} ({entry.header['why']}) passed exact and every probe"


@pytest.mark.parametrize("entry", _parameters(HONEST))
def test_an_honest_kernel_is_not_refused(entry: Entry):
    seen = outcome(entry.path)
    assert seen.honest, seen.details


def test_the_corpus_has_the_size_that_the_claims_need():
    assert len(BAD) >= 40
    assert len(HONEST) >= 10
    assert len({entry.path.read_text() for entry in BAD + HONEST}) == len(BAD) + len(HONEST)


def test_the_documents_table_has_a_row_for_every_bad_kernel_and_none_that_passes():
    text = DOCUMENT.read_text()
    rows = [line for line in text.partition(BEGIN)[2].splitlines() if line.startswith("| ")][2:]
    by_name = {row.split("|")[2].strip(): row for row in rows}
    assert set(by_name) == {entry.name for entry in BAD}
    for name, row in by_name.items():
        *_, exact, probes, _ = (cell.strip() for cell in row.split("|"))
        assert exact == "fail" or probes not in ("–", ""), f"{name} is believed by everything"
