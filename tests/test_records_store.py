"""records.sqlite: several writers, sudden ends, damaged, older and newer files, and the way to another machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.records.exchange import BrokenLines, export_lines, import_lines
from harness.records.record import CaseRecord, ComparisonRecord, Run
from harness.records.rows import pack, unpack
from harness.records.schema import STEPS, VERSION
from harness.records.store import FILE, RecordsProblem, Store, open_store

ROOT = Path(__file__).parents[1]


def a_run(number: int = 1, **changes: object) -> Run:
    given = {
        "id": f"{number:012x}", "kind": "eval", "mode": "benchmark", "problem": "mla",
        "started_at": f"2026-12-01T00:00:{number % 60:02}Z",
        "device": "GPU A", "device_kind": "cuda", "target": "sm_90", "triton": "3.6.0",
    }  # fmt: skip
    return Run(**{**given, **changes})


def a_case(run: Run, position: int = 1, **changes: object) -> CaseRecord:
    given = {
        "run_id": run.id, "position": position, "variant": "v", "file": "variants/v.py", "source_hash": "h",
        "shape": "4x1024", "status": "pass", "official": "pass", "exact": "pass",
    }  # fmt: skip
    return CaseRecord(**{**given, **changes})


def a_duel(run: Run, position: int = 1, **changes: object) -> ComparisonRecord:
    given = {
        "run_id": run.id, "position": position, "a": "v", "a_hash": "h", "b": "w", "b_hash": "g", "shape": "4x1024",
        "ratio": 0.5, "low": 0.49, "high": 0.51, "verdict": "FASTER", "reason": None, "noise_floor": 0.01,
        "detectable": 0.02, "p_holm": 0.001, "delta": 0.005, "blocks": 20, "processes": 3, "a_ns": 1.0, "b_ns": 2.0,
        "samples_ns": (1.5, 2.5),
    }  # fmt: skip
    return ComparisonRecord(**{**given, **changes})


def opened(root: Path) -> Store:
    """The store of a folder; a test that expects a remark passes its own `said`."""
    return open_store(root, lambda line: pytest.fail(line))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    run = a_run(options={"seed": 7}, clocks={"before": {"compute_mhz": 1980.0}})
    case = a_case(
        run, mean_ns=12.5, samples_ns=(1e-9, 12.5, 3e15), exposed_ns=(4.0,), probes={"lint": {"status": "pass"}}
    )
    with opened(tmp_path) as store:
        store.add(run, case, a_duel(run))
        store.finish(run.id)
    with opened(tmp_path) as store:
        assert list(store.runs()) == [replace(run, finished=True)]
        assert store.records_of(run.id) == [case, a_duel(run)]


@pytest.mark.parametrize("samples", [(), (0.0,), (12715.25, 1e300, 5e-324), tuple(float(n) for n in range(1000))])
def test_samples_come_back_to_the_last_bit(samples: tuple[float, ...]) -> None:
    assert unpack(pack(samples)) == samples


def test_a_transaction_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    run = a_run()
    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="UNIQUE"):
            store.add(run, a_case(run, 1), a_case(run, 1))
        assert list(store.runs()) == []
        with pytest.raises(ValueError, match="FOREIGN KEY"):
            store.add(a_case(run))


def write_many(root: Path, first: int, count: int) -> None:
    with open_store(root, print) as store:
        for number in range(first, first + count):
            run = a_run(number)
            store.add(run, a_case(run, mean_ns=1.0, samples_ns=(1.0,) * 100))
            store.add(a_case(run, 2))
            store.finish(run.id)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    # They begin together, so that making the file is a race too.
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(tmp_path, 1000 * n, 40)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    with opened(tmp_path) as store:
        assert sum(run.finished for run in store.runs()) == 120
        assert len(store.cases()) == 240


ENDLESS = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from test_records_store import a_case, a_run, open_store
store = open_store(Path({folder!r}), print)
number = 0
while True:
    number += 1
    run = a_run(number)
    store.add(run, a_case(run, samples_ns=tuple(float(n) for n in range(5000))))
    store.finish(run.id)
    print(number, flush=True)
"""


def test_a_process_killed_while_writing_loses_at_most_what_it_was_writing(tmp_path: Path) -> None:
    code = ENDLESS.format(root=str(ROOT), tests=str(ROOT / "tests"), folder=str(tmp_path))
    for _ in range(3):
        (tmp_path / FILE).unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        while int(writer.stdout.readline()) < 20:
            pass
        writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in writer.stdout.read().split()]
        writer.wait()
        with opened(tmp_path) as store:
            finished = [run for run in store.runs() if run.finished]
            assert len(finished) >= max(said, default=20)
            assert len(store.cases()) - len(finished) in (0, 1)
        for part in tmp_path.glob(f"{FILE}*"):
            part.unlink()


@pytest.mark.parametrize("damage", ["random bytes", "cut short", "another kind of file"])
def test_a_damaged_file_is_kept_under_another_name_and_records_go_on(tmp_path: Path, damage: str) -> None:
    write_many(tmp_path, 1, 30)
    path = tmp_path / FILE
    whole = path.read_bytes()
    damaged = {
        "random bytes": os.urandom(5000),
        "cut short": whole[: len(whole) // 2],
        "another kind of file": b"x" * 99,
    }
    path.write_bytes(damaged[damage])
    said: list[str] = []
    store = open_store(tmp_path, said.append)
    with store:
        store.add(a_run(99), a_case(a_run(99)))
        assert len(store.cases()) == 1
    (line,) = said
    (kept,) = [each for each in path.parent.iterdir() if "damaged" in each.name and each.suffix not in ("-wal", "-shm")]
    assert kept.read_bytes() == damaged[damage]
    assert kept.name in line
    assert "\n" not in line


def test_an_older_file_is_brought_up_to_date_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    old = sqlite3.connect(path)
    for statement in STEPS[0]:
        old.execute(statement)
    old.execute("PRAGMA user_version = 1")
    old.execute("INSERT INTO run (id, kind, started_at, problem, device, device_kind, target) "
                "VALUES ('r', 'eval', '2026-01-01T00:00:00Z', 'mla', 'GPU A', 'cuda', 'sm_90')")  # fmt: skip
    old.execute("INSERT INTO case_record (run_id, position, variant, file, source_hash, shape, status, official, "
                "exact, mean_ns) "
                "VALUES ('r', 1, 'v', 'v.py', 'h', '4x1024', 'pass', 'pass', 'pass', 12.5)")  # fmt: skip
    old.commit()
    old.close()
    with opened(tmp_path) as store:
        ((run, case),) = store.cases()
    assert (run.id, run.finished, case.mean_ns, case.exposed_ns, case.floor_ns) == ("r", False, 12.5, (), None)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_many(tmp_path, 1, 1)
    path = tmp_path / FILE
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(RecordsProblem, match=f"version {VERSION + 1}, this one knows {VERSION}"):
        opened(tmp_path)
    assert not list(path.parent.glob("*damaged*"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("a file where the folder should be")
    with pytest.raises(RecordsProblem, match=r"records cannot be kept in .*harness"):
        opened(tmp_path)


# -- to another machine -------------------------------------------------------------------------------------------


def filled(root: Path) -> Store:
    store = opened(root)
    first, second = a_run(1, options={"kv": "fp8"}), a_run(2, kind="ab", mode=None)
    store.add(first, a_case(first, mean_ns=3.0, err_ns=None, samples_ns=(3.0, 3.1), error=0.01))
    store.add(second, a_duel(second), a_duel(second, 2, shape=None, a_ns=None))
    store.finish(first.id)
    return store


def test_exported_lines_give_the_same_records_elsewhere_and_only_once(tmp_path: Path) -> None:
    with filled(tmp_path / "here") as here, opened(tmp_path / "there") as there:
        lines = list(export_lines(here))
        assert all(json.loads(line)["format"] == 1 for line in lines)
        assert import_lines(there, lines, "f") == (2, 0)
        assert import_lines(there, lines, "f") == (0, 2)
        assert list(export_lines(there)) == lines


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("{", "", 1), "no JSON"),
        (('"record": "case"', '"record": "cases"', 1), "no record"),
        (('"format": 1', '"format": 2', -1), "another format than 1"),
        (('"shape"', '"form"', 1), "unknown key 'form'"),
        (('"variant": "v", ', "", 1), "no variant"),
        (('"mean_ns": 3.0', '"mean_ns": "fast"', 1), "mean_ns cannot be"),
        (('"run_id": "000000000001"', '"run_id": "x"', 1), "belongs to run x"),
        (('"samples_ns": [3.0', '"samples_ns": [null', 1), "samples_ns cannot be"),
        (('"kind": "eval"', '"kind": "evil"', 1), "kind cannot be"),
        (('"finished": true', '"finished": 1', 1), "finished cannot be"),
    ],
)
def test_a_broken_line_is_named_and_nothing_of_its_file_is_taken(
    tmp_path: Path, change: tuple[str, str, int], said: str
) -> None:
    with filled(tmp_path / "here") as here, opened(tmp_path / "there") as there:
        text = "\n".join(export_lines(here))
        assert change[0] in text
        with pytest.raises(BrokenLines, match=r"^f:\d+: ") as refused:
            import_lines(there, text.replace(*change).split("\n"), "f")
        assert said in str(refused.value)
        assert list(there.runs()) == []


# -- many records -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 cases of 50 sources in 12,500 runs."""
    root = tmp_path_factory.mktemp("many")
    with open_store(root, print) as store:
        shapes = ["4x1024", "4x8192", "32x1024", "32x8192", "64x1024", "64x8192", "256x1024", "256x8192"]
        for first in range(0, 12500, 2500):
            records: list[Run | CaseRecord] = []
            for number in range(first, first + 2500):
                run = a_run(number, started_at=f"2026-{1 + number // 1100:02}-{1 + number % 28:02}T00:00:00Z")
                source = number % 50
                records.append(run)
                records += [
                    a_case(run, place, shape=shape, variant=f"v{source % 10}", source_hash=f"h{source}",
                           mean_ns=1.0 * number, samples_ns=(1.0, 2.0))
                    for place, shape in enumerate(shapes)
                ]  # fmt: skip
            store.add(*records)
    return root


@pytest.mark.parametrize("question", ["history", "latest", "timed target", "other sources", "names"])
def test_a_hundred_thousand_records_answer_within_a_second(many: Path, question: str) -> None:
    ask = {
        "history": lambda store: store.cases(variant="v3", shape="32x1024", limit=30),
        "latest": lambda store: store.latest_of_sources([f"h{number}" for number in range(10)]),
        "timed target": lambda store: store.newest_timed_target(),
        "other sources": lambda store: store.cases_of_other_sources("v3", "h3", "sm_90"),
        "names": lambda store: store.variant_names(),
    }[question]
    with opened(many) as store:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            assert ask(store)
            took.append(time.perf_counter() - began)
    # The least of three: other tests run beside this one.
    assert min(took) < 1.0
