"""records.sqlite: opened, migrated, written by several processes at once, and set aside when it is damaged."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from harness.errors import HarnessError
from harness.records import rows
from harness.records.record import CaseRecord, ComparisonRecord, Record, Run
from harness.records.schema import VERSION, migrate, version_of

FILE = Path(".harness") / "records.sqlite"
# How long one process waits for another's write. A write takes milliseconds.
_BUSY_S = 30.0


class RecordsProblem(HarnessError):
    """The records cannot be opened or written; the message says which file, why, and what to do."""


class Store:
    """The open records of one problem folder. Use `open_store`; close it, or use it as a context.

    Every write is a transaction of its own, so a process that is killed loses what it was writing and nothing else.
    May be used from several threads.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def add(self, *records: Record) -> None:
        """Write records, all of them or none. Raises RecordsProblem where it cannot, ValueError for a taken key."""
        with self._writing():
            for record in records:
                rows.insert(self._connection, record)

    def finish(self, run_id: str, clocks: str | None = None) -> None:
        """Note that a run came to its end, with the device's clocks as JSON."""
        with self._writing():
            self._connection.execute(
                "UPDATE run SET finished = 1, clocks = coalesce(?, clocks) WHERE id = ?", (clocks, run_id)
            )

    def known_runs(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that are here."""
        return {each for each in ids if self._rows("SELECT 1 FROM run WHERE id = ?", (each,))}

    def runs(self) -> Iterator[Run]:
        """Every run, oldest first."""
        query = f"SELECT {rows.select(Run, 'r', samples=True)} FROM run r ORDER BY r.started_at, r.id"
        yield from (rows.read(Run, row) for row in self._rows(query))

    def records_of(self, run_id: str) -> list[CaseRecord | ComparisonRecord]:
        """The cases and comparisons of a run, with their samples."""
        found: list[CaseRecord | ComparisonRecord] = []
        for kind in (CaseRecord, ComparisonRecord):
            columns = rows.select(kind, "t", samples=True)
            query = f"SELECT {columns} FROM {rows.TABLES[kind]} t WHERE t.run_id = ? ORDER BY t.position"
            found += [rows.read(kind, row) for row in self._rows(query, (run_id,))]
        return found

    def cases(
        self,
        *,
        source_hashes: Sequence[str] | None = None,
        variant: str | None = None,
        shape: str | None = None,
        timed: bool = False,
        limit: int | None = None,
        samples: bool = False,
    ) -> list[tuple[Run, CaseRecord]]:
        """Cases with their runs, newest first. timed: only those with a time. samples: read the timed calls too."""
        conditions, values = ["1"], list[object]()
        if source_hashes is not None:
            conditions.append(f"c.source_hash IN ({', '.join('?' * len(source_hashes))})")
            values += source_hashes
        for column, value in (("variant", variant), ("shape", shape)):
            if value is not None:
                conditions.append(f"c.{column} = ?")
                values.append(value)
        if timed:
            conditions.append("c.mean_ns IS NOT NULL")
        query = (
            f"SELECT {rows.select(Run, 'r', samples=samples)}, {rows.select(CaseRecord, 'c', samples=samples)} "
            f"FROM case_record c JOIN run r ON r.id = c.run_id WHERE {' AND '.join(conditions)} "
            "ORDER BY r.started_at DESC, c.run_id, c.position LIMIT ?"
        )
        found = self._rows(query, (*values, -1 if limit is None else limit))
        split = rows.width(Run)
        return [(rows.read(Run, row), rows.read(CaseRecord, row, split)) for row in found]

    def latest_of_sources(self, source_hashes: Sequence[str]) -> list[tuple[Run, CaseRecord]]:
        """For each source, shape, command, mode, target, device and Triton: the newest case, newest first."""
        if not source_hashes:
            return []
        query = (
            f"SELECT {rows.select(Run, 'r', samples=False)}, {rows.select(CaseRecord, 'c', samples=False)}, "
            "max(r.started_at) "
            "FROM case_record c JOIN run r ON r.id = c.run_id "
            f"WHERE c.source_hash IN ({', '.join('?' * len(source_hashes))}) "
            "GROUP BY c.source_hash, c.shape, r.kind, r.mode, r.target, r.device, r.triton ORDER BY r.started_at DESC"
        )
        split = rows.width(Run)
        found = self._rows(query, tuple(source_hashes))
        return [(rows.read(Run, row), rows.read(CaseRecord, row, split)) for row in found]

    def variant_names(self) -> list[str]:
        """Every name that cases are kept of, sorted."""
        return [row[0] for row in self._rows("SELECT DISTINCT variant FROM case_record ORDER BY variant")]

    def newest_timed_target(self) -> str | None:
        """The target of the newest case with a time; None without one."""
        query = (
            "SELECT r.target FROM run r WHERE EXISTS (SELECT 1 FROM case_record c WHERE c.run_id = r.id "
            "AND c.mean_ns IS NOT NULL) ORDER BY r.started_at DESC LIMIT 1"
        )
        found = self._rows(query)
        return found[0][0] if found else None

    def cases_of_other_sources(self, variant: str, source_hash: str, target: str) -> int:
        """How many timed cases of this name and target belong to another source than this one."""
        query = (
            "SELECT count(*) FROM case_record c JOIN run r ON r.id = c.run_id WHERE c.variant = ? "
            "AND c.source_hash != ? AND c.mean_ns IS NOT NULL AND r.target = ?"
        )
        return self._rows(query, (variant, source_hash, target))[0][0]

    def comparisons(
        self, *, shape: str | None = None, source_hashes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[tuple[Run, ComparisonRecord]]:
        """Comparisons with their runs, newest first; source_hashes: only those of two of these sources."""
        conditions, values = ["1"], list[object]()
        if shape is not None:
            conditions.append("c.shape = ?")
            values.append(shape)
        if source_hashes is not None:
            marks = ", ".join("?" * len(source_hashes))
            conditions.append(f"c.a_hash IN ({marks}) AND c.b_hash IN ({marks})")
            values += [*source_hashes, *source_hashes]
        query = (
            f"SELECT {rows.select(Run, 'r', samples=False)}, {rows.select(ComparisonRecord, 'c', samples=False)} "
            f"FROM comparison_record c JOIN run r ON r.id = c.run_id WHERE {' AND '.join(conditions)} "
            "ORDER BY r.started_at DESC, c.run_id, c.position LIMIT ?"
        )
        split = rows.width(Run)
        found = self._rows(query, (*values, -1 if limit is None else limit))
        return [(rows.read(Run, row), rows.read(ComparisonRecord, row, split)) for row in found]

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple]:
        with self._lock, _explained(self.path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, _explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def open_store(root: Path, said: Callable[[str], None]) -> Store:
    """The records of the problem folder `root`, made where there are none.

    A file that is no database or is damaged is set aside under another name, and `said` gets one line about it; so do
    files of an older version that are brought up to date, silently. Raises RecordsProblem for a newer version, and
    where the folder cannot be written.
    """
    path = root / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordsProblem(f"records cannot be kept in {path.parent}: {error.strerror}") from None
    try:
        return _open(path)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise _problem(path, error) from None
        said(f"{path} is damaged ({error}); it was kept as {set_aside(path).name}, and new records begin")
        with _explained(path):
            return _open(path)


def _open(path: Path) -> Store:
    # Transactions are begun by hand: the module's own would leave a step of a migration outside.
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = version_of(connection)
        if version > VERSION:
            raise RecordsProblem(
                f"{path} was written by a newer harness (version {version}, this one knows {VERSION}); "
                "update the harness, or move the file away"
            )
        if version < VERSION:
            migrate(connection)
        # Reads the tables' definitions: a file that is cut short fails here, and not in the middle of a run.
        for table in rows.TABLES.values():
            connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)").fetchone()
    except BaseException:
        connection.close()
        raise
    return Store(path, connection)


def set_aside(path: Path) -> Path:
    """Give a damaged file and its write-ahead log another name, which is returned; nothing is deleted."""
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S%f")
    kept = path.with_name(f"{path.name}.damaged-{now}")
    for ending in ("", "-wal", "-shm"):
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(kept.with_name(kept.name + ending))
    return kept


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # SQLite's own words for SQLITE_NOTADB and SQLITE_CORRUPT; Python 3.10 does not give the codes.
    return any(words in str(error) for words in ("not a database", "malformed", "no such table", "no such column"))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise ValueError(f"{path}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise _problem(path, error) from None


def _problem(path: Path, error: sqlite3.DatabaseError) -> RecordsProblem:
    if _is_damage(error):
        return RecordsProblem(f"{path} is damaged ({error}); move it away (mv {path} {path}.damaged) and go on")
    return RecordsProblem(f"records cannot be kept in {path}: {error}")
