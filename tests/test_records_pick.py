"""`harness pick`: who holds a shape, by records of present sources, one device, one Triton, and A/Bs only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from assembly_cases.problem_folder import PLATFORM, make_problem
from test_records_store import a_case, a_duel, a_run, opened

from harness.assembly.winners import TargetWinners, Winner, read_winners
from harness.cli.main import run as harness
from harness.problem.variant import Variant
from harness.records.evidence import gather
from harness.records.pick import Choice, choose
from harness.records.store import Store

SHAPE = "4x1024"


def variant(name: str, **declared: object) -> Variant:
    return Variant(Path(f"{name}.py"), f"source of {name}", {"shapes": "any", "targets": ["sm_90"], **declared})


OLD, NEW, OTHER = variant("old"), variant("new"), variant("other")
HELD = TargetWinners("other", {SHAPE: Winner("old", "published")})


class Records:
    """A store that is filled a run at a time, each newer than the one before."""

    def __init__(self, store: Store) -> None:
        self.store, self._runs = store, 0

    def run(self, **changes: object):
        self._runs += 1
        return a_run(self._runs, **changes)

    def time(self, of: Variant, mean_ns: float, run: dict | None = None, **changes: object) -> str:
        made = self.run(**(run or {}))
        case = {"variant": of.name, "source_hash": of.source_hash, "shape": SHAPE, "mean_ns": mean_ns, "err_ns": 1.0}
        self.store.add(made, a_case(made, **{**case, **changes}))
        return made.id

    def duel(self, a: Variant, b: Variant, verdict: str, ratio: float, run: dict | None = None) -> str:
        made = self.run(kind="ab", mode=None, **(run or {}))
        hashes = {"a": a.name, "a_hash": a.source_hash, "b": b.name, "b_hash": b.source_hash}
        self.store.add(made, a_duel(made, verdict=verdict, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, **hashes))
        return made.id

    def choice(self, held: TargetWinners = HELD, candidates: tuple[Variant, ...] = (OLD, NEW, OTHER)) -> Choice:
        evidence = gather(self.store, "sm_90", candidates)
        self.stale = evidence.stale
        (choice,) = choose("sm_90", held, [SHAPE], candidates, evidence)
        return choice


@pytest.fixture
def records(tmp_path: Path):
    with opened(tmp_path) as store:
        yield Records(store)


def test_without_records_the_incumbent_stays(records: Records) -> None:
    choice = records.choice()
    assert (choice.winner, choice.changed, choice.updated) == (Winner("old", "published"), False, False)
    assert "no timed record" in choice.reason


def test_a_smaller_mean_alone_beats_nobody_and_the_deciding_comparison_is_named(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000)
    choice = records.choice()
    assert not choice.changed
    assert "no A/B says FASTER" in choice.reason
    assert choice.asked == f"new old --shapes {SHAPE}"


@pytest.mark.parametrize("seen_from_b", [False, True])
def test_an_ab_that_says_faster_makes_a_winner_with_its_record(records: Records, seen_from_b: bool) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000)
    duel = records.duel(OLD, NEW, "SLOWER", 2.0) if seen_from_b else records.duel(NEW, OLD, "FASTER", 0.5)
    choice = records.choice()
    assert (choice.winner.variant, choice.winner.record, choice.winner.time_ns) == ("new", duel, 10_000)
    assert choice.changed
    assert "0.500" in choice.winner.why
    assert choice.asked == ""


@pytest.mark.parametrize("verdict", ["SAME", "UNDECIDED", "SLOWER"])
def test_any_other_verdict_leaves_the_incumbent(records: Records, verdict: str) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000)
    records.duel(NEW, OLD, verdict, 0.99)
    assert not records.choice().changed


def test_the_newest_comparison_of_two_sources_counts(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 19_000)
    records.duel(NEW, OLD, "FASTER", 0.5)
    records.duel(OLD, NEW, "SAME", 1.0)
    assert not records.choice().changed


def test_of_several_that_beat_the_incumbent_the_one_with_the_smallest_ratio_wins(records: Records) -> None:
    for each, mean_ns in ((OLD, 20_000), (NEW, 10_000), (OTHER, 12_000)):
        records.time(each, mean_ns)
    records.duel(NEW, OLD, "FASTER", 0.5)
    records.duel(OTHER, OLD, "FASTER", 0.4)
    assert records.choice().winner.variant == "other"


def test_what_failed_exact_never_wins_and_is_named(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000)
    records.duel(NEW, OLD, "FASTER", 0.5)
    records.time(NEW, 10_000, status="fail", exact="fail", error=0.4)
    choice = records.choice()
    assert choice.winner.variant == "old"
    assert "failed exact: error 0.4" in choice.failures["new"]


def test_a_failed_probe_counts_as_much(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000)
    records.duel(NEW, OLD, "FASTER", 0.5)
    made = records.run(kind="check", mode=None, target="portable")
    probes = {"kept-outputs": {"status": "fail", "detail": "…"}, "lint": {"status": "pass", "detail": ""}}
    records.store.add(made, a_case(made, variant="new", source_hash=NEW.source_hash, status="fail", probes=probes))
    choice = records.choice()
    assert choice.winner.variant == "old"
    assert "failed kept-outputs" in choice.failures["new"]


def test_a_later_pass_forgives_an_earlier_failure_of_the_same_source(records: Records) -> None:
    records.time(NEW, 10_000, status="fail", exact="fail")
    records.time(NEW, 10_000)
    records.time(OLD, 20_000)
    records.duel(NEW, OLD, "FASTER", 0.5)
    assert records.choice().winner.variant == "new"


def test_an_incumbent_that_failed_gives_way_to_the_fastest_that_passed(records: Records) -> None:
    records.time(OLD, 5_000, status="fail", exact="fail")
    new = records.time(NEW, 10_000)
    records.time(OTHER, 12_000)
    choice = records.choice()
    assert (choice.winner.variant, choice.winner.record, choice.changed) == ("new", new, True)


def test_an_incumbent_without_a_time_is_beaten_by_an_ab_only(records: Records) -> None:
    records.time(NEW, 10_000)
    choice = records.choice()
    assert not choice.changed
    assert choice.asked == f"new old --shapes {SHAPE}"


def test_the_incumbents_own_time_and_record_are_noted(records: Records) -> None:
    run = records.time(OLD, 20_000.4)
    choice = records.choice()
    assert (choice.winner, choice.changed, choice.updated) == (Winner("old", "published", run, 20_000), False, True)
    held = TargetWinners("other", {SHAPE: choice.winner})
    assert not records.choice(held).updated


def test_records_of_a_changed_source_are_named_and_not_used(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000, source_hash="what it was")
    choice = records.choice()
    assert [figure.variant for figure in choice.figures] == ["old"]
    assert any("source changed since" in each and "new" in each for each in records.stale)


@pytest.mark.parametrize("elsewhere", [{"device": "GPU B"}, {"triton": "3.5.0"}])
def test_records_of_another_device_or_triton_are_named_and_not_used(records: Records, elsewhere: dict) -> None:
    records.time(NEW, 10_000, elsewhere)
    records.duel(NEW, OLD, "FASTER", 0.5, elsewhere)
    records.time(OLD, 20_000)
    choice = records.choice()
    assert not choice.changed
    assert [figure.variant for figure in choice.figures] == ["old"]
    assert any("other device or Triton" in each and "new" in each for each in records.stale)


def test_records_of_another_target_have_no_say(records: Records) -> None:
    records.time(OLD, 20_000)
    records.time(NEW, 10_000, {"target": "gfx950"})
    records.duel(NEW, OLD, "FASTER", 0.5, {"target": "gfx950"})
    assert [figure.variant for figure in records.choice().figures] == ["old"]


def test_a_variant_that_does_not_take_the_shape_or_the_target_is_no_candidate(records: Records) -> None:
    elsewhere, narrow = variant("elsewhere", targets=["gfx950"]), variant("narrow", shapes=["4x8192"])
    records.time(OLD, 20_000)
    for each in (elsewhere, narrow):
        records.time(each, 10_000)
        records.duel(each, OLD, "FASTER", 0.5)
    choice = records.choice(candidates=(OLD, elsewhere, narrow))
    assert (choice.winner.variant, [figure.variant for figure in choice.figures]) == ("old", ["old"])


def test_the_fallback_holds_a_shape_without_a_line(records: Records) -> None:
    records.time(OTHER, 20_000)
    records.time(NEW, 10_000)
    records.duel(NEW, OTHER, "FASTER", 0.5)
    choice = records.choice(TargetWinners("other", {}))
    assert (choice.incumbent, choice.winner.variant) == ("other", "new")


# -- the command --------------------------------------------------------------------------------------------------

FILE = f"""\
# mine
{PLATFORM}
[sm_90]
fallback = "b"

[sm_90.shapes]
"1" = {{ variant = "b", why = "published" }}  # and why not
"""
ENTRY = (
    'VARIANT = {{"shapes": "any", "targets": ["sm_90"]}}\nNAME = "{}"\n\n\ndef custom_kernel(data):\n    return data\n'
)


def prepared(root: Path) -> tuple[str, str]:
    """A folder where an A/B says that a beats b on shape 1; the ids of its run and of a's."""
    make_problem(root, {"a": ENTRY.format("a"), "b": ENTRY.format("b")}, FILE)
    a, b = (Variant(root / f"{n}.py", ENTRY.format(n), {}) for n in "ab")
    with opened(root) as store:
        records = Records(store)
        run = records.time(a, 10_000, shape="1")
        records.time(b, 20_000, shape="1")
        made = records.run(kind="ab", mode=None)
        hashes = {"a": "a", "a_hash": a.source_hash, "b": "b", "b_hash": b.source_hash}
        store.add(made, a_duel(made, shape="1", **hashes))
    return made.id, run


def test_pick_shows_the_line_to_paste_and_writes_only_when_told(tmp_path: Path, capsys) -> None:
    duel, _ = prepared(tmp_path)
    path = tmp_path / "variants" / "winners.toml"
    assert harness(["pick", "--problem", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f'record = "{duel}"' in shown
    assert path.read_text() == FILE
    assert harness(["pick", "--problem", str(tmp_path), "--apply", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["applied"] is True
    first = document["shapes"][0]
    assert (first["winner"], first["changed"], first["record"], first["time_ns"]) == ("a", True, duel, 10_000)
    written = path.read_text()
    assert written.startswith("# mine\n")
    assert "# and why not" in written
    from harness.problem.problem import open_problem

    winner = read_winners(path, open_problem(tmp_path)).of("sm_90").shapes["1"]
    assert (winner.variant, winner.record, winner.time_ns) == ("a", duel, 10_000)


def test_history_and_variants_show_the_records(tmp_path: Path, capsys) -> None:
    _, run = prepared(tmp_path)
    assert harness(["history", "a", "--shape", "1", "--problem", str(tmp_path), "--json", "-"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert (record["record"], record["mean"], record["variant"]) == (run, 10_000, "a")
    assert harness(["variants", "--problem", str(tmp_path), "--json", "-"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["variants"]}
    assert rows["a"]["best"] == [{"shape": "S1", "device": "GPU A", "mean": 10_000}]
    assert rows["a"]["last_verdict"].startswith("pass 2026")


def test_history_of_an_unknown_variant_names_the_nearest(tmp_path: Path, capsys) -> None:
    prepared(tmp_path)
    assert harness(["history", "aa", "--problem", str(tmp_path)]) == 2
    assert "did you mean a?" in capsys.readouterr().err


def test_records_travel_by_the_commands(tmp_path: Path, capsys) -> None:
    prepared(tmp_path / "here")
    make_problem(tmp_path / "there", {"a": ENTRY.format("a"), "b": ENTRY.format("b")}, FILE)
    lines = tmp_path / "records.jsonl"
    assert harness(["records", "export", str(lines), "--problem", str(tmp_path / "here")]) == 0
    assert harness(["records", "import", str(lines), "--problem", str(tmp_path / "there")]) == 0
    assert "3 runs taken, 0 were here already" in capsys.readouterr().out
    assert harness(["records", "import", "nowhere.jsonl", "--problem", str(tmp_path / "there")]) == 2
    assert "no such file: nowhere.jsonl" in capsys.readouterr().err
