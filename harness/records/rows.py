"""Records as rows of a table and back: samples compressed, mappings as JSON."""

from __future__ import annotations

import json
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from harness.records.record import CaseRecord, ComparisonRecord, Record, Run

TABLES: dict[type, str] = {Run: "run", CaseRecord: "case_record", ComparisonRecord: "comparison_record"}
_SAMPLES = ("samples_ns", "exposed_ns")
_MAPPINGS = ("options", "clocks", "probes")

R = TypeVar("R", Run, CaseRecord, ComparisonRecord)


def pack(samples_ns: Iterable[float]) -> bytes | None:
    """Samples as little-endian float64 behind zlib; None for none."""
    values = array("d", samples_ns)
    if not values:
        return None
    if array("H", [1]).tobytes() != b"\x01\x00":
        values.byteswap()
    return zlib.compress(values.tobytes(), 6)


def unpack(packed: bytes | None) -> tuple[float, ...]:
    """The samples of `pack`. Raises ValueError for bytes that are none."""
    if packed is None:
        return ()
    try:
        values = array("d", zlib.decompress(packed))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"no packed samples: {error}") from None
    if array("H", [1]).tobytes() != b"\x01\x00":
        values.byteswap()
    return tuple(values)


def insert(connection: sqlite3.Connection, record: Record) -> None:
    """Put a record in its table. Raises sqlite3.IntegrityError where its key is taken."""
    names = _columns(type(record))
    values = [_to_sql(name, getattr(record, name)) for name in names]
    listed = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join("?" * len(names))
    connection.execute(f"INSERT INTO {TABLES[type(record)]} ({listed}) VALUES ({marks})", values)


def select(kind: type[R], alias: str, *, samples: bool) -> str:
    """The columns of a record for a SELECT, from the table's alias. samples: False leaves the blobs out."""
    return ", ".join(
        f'NULL AS "{name}"' if name in _SAMPLES and not samples else f'{alias}."{name}"' for name in _columns(kind)
    )


def read(kind: type[R], row: tuple[Any, ...], first: int = 0) -> R:
    """The record in a row of `select`'s columns, from column `first`."""
    names = _columns(kind)
    return kind(**{name: _from_sql(name, row[first + index]) for index, name in enumerate(names)})


def width(kind: type) -> int:
    """How many columns a record has."""
    return len(_columns(kind))


@cache
def _columns(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _to_sql(name: str, value: Any) -> Any:
    if name in _SAMPLES:
        return pack(value)
    if isinstance(value, Mapping):
        return json.dumps(value, sort_keys=True)
    return int(value) if isinstance(value, bool) else value


def _from_sql(name: str, value: Any) -> Any:
    if name in _SAMPLES:
        return unpack(value)
    if name in _MAPPINGS:
        return json.loads(value)
    return bool(value) if name == "finished" else value
