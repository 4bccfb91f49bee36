"""The tables of records.sqlite, by version: each step takes a file from one version to the next."""

from __future__ import annotations

import sqlite3

# The version is the number of steps that a file has gone through, in its `user_version`. A step is never changed once
# it is on main: files that went through it exist.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE run (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, mode TEXT, started_at TEXT NOT NULL, problem TEXT NOT NULL,
            "commit" TEXT, device TEXT NOT NULL, device_kind TEXT NOT NULL, target TEXT NOT NULL, driver TEXT,
            torch TEXT, triton TEXT, python TEXT, hostname TEXT, options TEXT NOT NULL DEFAULT '{}',
            clocks TEXT NOT NULL DEFAULT '{}', finished INTEGER NOT NULL DEFAULT 0)""",
        """CREATE TABLE case_record (
            run_id TEXT NOT NULL REFERENCES run (id), position INTEGER NOT NULL, variant TEXT NOT NULL,
            file TEXT NOT NULL, source_hash TEXT NOT NULL, shape TEXT NOT NULL, spec TEXT, status TEXT NOT NULL,
            official TEXT NOT NULL, mismatch_ratio REAL, exact TEXT NOT NULL, error REAL, worst_row REAL, "limit" REAL,
            reads TEXT, probes TEXT NOT NULL DEFAULT '{}', reason TEXT NOT NULL DEFAULT '', slice_of TEXT, runs INTEGER,
            mean_ns REAL, std_ns REAL, err_ns REAL, best_ns REAL, worst_ns REAL, samples_ns BLOB,
            PRIMARY KEY (run_id, position))""",
        """CREATE TABLE comparison_record (
            run_id TEXT NOT NULL REFERENCES run (id), position INTEGER NOT NULL, a TEXT NOT NULL, a_hash TEXT NOT NULL,
            b TEXT NOT NULL, b_hash TEXT NOT NULL, shape TEXT, ratio REAL NOT NULL, low REAL NOT NULL,
            high REAL NOT NULL, verdict TEXT NOT NULL, reason TEXT, noise_floor REAL NOT NULL,
            detectable REAL NOT NULL, p_holm REAL NOT NULL, delta REAL NOT NULL, blocks INTEGER NOT NULL,
            processes INTEGER NOT NULL, a_ns REAL, b_ns REAL, samples_ns BLOB, PRIMARY KEY (run_id, position))""",
        "CREATE INDEX run_by_time ON run (started_at)",
        "CREATE INDEX case_by_source ON case_record (source_hash, shape)",
        "CREATE INDEX case_by_variant ON case_record (variant, shape)",
        "CREATE INDEX comparison_by_shape ON comparison_record (shape, a_hash, b_hash)",
    ),
    # The exposed clock and the byte floor came later.
    (
        "ALTER TABLE case_record ADD COLUMN exposed_ns BLOB",
        "ALTER TABLE case_record ADD COLUMN floor_ns REAL",
        "ALTER TABLE case_record ADD COLUMN bandwidth REAL",
    ),
)
VERSION = len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """The version of an open file: 0 for one without tables."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection) -> None:
    """Take an open file of an older version to VERSION; all of it happens, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        for step in STEPS[version_of(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
