"""Records as JSON lines, to bring them from one machine to another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, fields
from typing import Any

from harness.errors import HarnessError
from harness.records.record import KINDS, CaseRecord, ComparisonRecord, Record, Run
from harness.records.store import Store

FORMAT = 1
_TYPES: dict[str, type] = {"run": Run, "case": CaseRecord, "comparison": ComparisonRecord}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_SAMPLES = ("samples_ns", "exposed_ns")


class BrokenLines(HarnessError):
    """A line that is no record of this format; nothing of its file was taken."""


def export_lines(store: Store) -> Iterator[str]:
    """Every record, a line each: a run, then what belongs to it. Ends of lines are the caller's."""
    for run in store.runs():
        for record in (run, *store.records_of(run.id)):
            yield json.dumps({"format": FORMAT, "record": _NAMES[type(record)], **asdict(record)}, allow_nan=False)


def import_lines(store: Store, lines: Iterable[str], name: str) -> tuple[int, int]:
    """Take the records of JSON lines: (runs taken, runs that were here already).

    name: of the file, for messages. Runs are known by their id, so that taking a file twice changes nothing. Raises
    BrokenLines with the line's number for a line that is no record; then none of the file is taken.
    """
    by_run: dict[str, list[Record]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            record = _record(line, f"{name}:{number}")
            if isinstance(record, Run):
                if record.id in by_run:
                    raise BrokenLines(f"{name}:{number}: run {record.id} came before")
                by_run[record.id] = [record]
            elif record.run_id in by_run:
                by_run[record.run_id].append(record)
            else:
                raise BrokenLines(f"{name}:{number}: belongs to run {record.run_id}, which does not stand before it")
    known = store.known_runs(by_run)
    new = [record for run_id, records in by_run.items() if run_id not in known for record in records]
    try:
        store.add(*new)
    except ValueError as error:
        raise BrokenLines(f"{name}: two records in one place ({error})") from None
    return len(by_run) - len(known), len(known)


def _record(line: str, where: str) -> Record:
    try:
        raw = json.loads(line)
    except json.JSONDecodeError as error:
        raise BrokenLines(f"{where}: no JSON: {error.msg}") from None
    if not isinstance(raw, dict) or raw.get("record") not in _TYPES:
        raise BrokenLines(f"{where}: no record (expected an object with record: {', '.join(_TYPES)})")
    if raw.pop("format", None) != FORMAT:
        raise BrokenLines(f"{where}: another format than {FORMAT}; export it with the same version of the harness")
    kind = _TYPES[raw.pop("record")]
    known = {each.name: each for each in fields(kind)}
    for key in raw:
        if key not in known:
            raise BrokenLines(f"{where}: unknown key '{key}'")
    for key, each in known.items():
        required = each.default is MISSING and each.default_factory is MISSING
        if key not in raw and required:
            raise BrokenLines(f"{where}: no {key}")
        if key in raw and not _fits(key, raw[key], str(each.type)):
            raise BrokenLines(f"{where}: {key} cannot be {json.dumps(raw[key])[:40]}")
    for key in _SAMPLES:
        if key in raw:
            raw[key] = tuple(raw[key])
    return kind(**raw)


def _fits(key: str, value: Any, annotation: str) -> bool:
    if key == "kind":
        return value in KINDS
    if key in _SAMPLES:
        return isinstance(value, list) and all(_is_number(each) for each in value)
    if annotation.startswith("Mapping"):
        return isinstance(value, dict)
    if value is None:
        return "None" in annotation
    if annotation.startswith("bool"):
        return isinstance(value, bool)
    if annotation.startswith("int"):
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation.startswith("float"):
        return _is_number(value)
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
