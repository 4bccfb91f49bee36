"""winners.toml: what is read, what is refused with one clear line, and how new winners are written into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from assembly_cases.problem_folder import PLATFORM, make_problem, merge, winners_text

from harness.assembly.winners import TARGETS, Winner, Winners, read_winners
from harness.assembly.winners_edit import winner_line, winner_lines, with_winners
from harness.errors import BrokenWinners, UnknownName
from harness.problem.problem import Problem, open_problem

ENTRY = "def custom_kernel(data):\n    return data\n"
ROOT = Path(__file__).parent.parent


def read(root: Path, text: str) -> Winners:
    """The winners in a file with this text, beside the variants a and b."""
    problem = make_problem(root, {"a": ENTRY, "b": ENTRY}, text)
    return read_winners(root / "variants" / "winners.toml", problem)


GOOD = """\
# who wins
[platform]
leaderboard = "amd-mixed-mla"
gpu = "MI355X"

[gfx950]
fallback = "b"  # right for all

[gfx950.shapes]
# the small one
"2" = { variant = "b", why = "published", record = "r17", time_ns = 12345.5 }
"1" = { variant = "a", why = "measured: 3 µs" }

[sm_90]
fallback = "a"
"""


def test_winners_are_read_in_the_order_of_the_shapes(tmp_path: Path) -> None:
    winners = read(tmp_path, GOOD)
    assert (winners.leaderboard, winners.gpu) == ("amd-mixed-mla", "MI355X")
    held = winners.of("gfx950")
    assert held.fallback == "b"
    assert list(held.shapes.items()) == [
        ("1", Winner("a", "measured: 3 µs")),
        ("2", Winner("b", "published", "r17", 12345.5)),
    ]
    assert winners.of("sm_90").shapes == {}
    assert winners.places_of("b") == ["gfx950 2", "gfx950 fallback"]
    assert winners.places_of("a") == ["gfx950 1", "sm_90 fallback"]


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": ENTRY, "b": ENTRY})
    path = tmp_path / "variants" / "winners.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_winners(path, problem).targets == read(tmp_path, GOOD).targets


BROKEN = [
    ('"1" = { variant = "a", why', '"1" = { variant = "a" why', BrokenWinners, "winners.toml:12: not valid TOML"),
    ("[platform]", "[platfrm]", UnknownName, "winners.toml:2 'platfrm'"),
    ("[platform]", "[platfrm]", UnknownName, "did you mean platform?"),
    ("gpu =", "gpus =", UnknownName, "winners.toml:4 'gpus'"),
    ('gpu = "MI355X"\n', "", BrokenWinners, "winners.toml:2: [platform] needs gpu"),
    ('"MI355X"', '"MI355X B200"', BrokenWinners, "winners.toml:4: gpu = 'MI355X B200': expected one word"),
    ("[gfx950]\n", "[gfx95]\n", UnknownName, "winners.toml:6 'gfx95'"),
    ('fallback = "b"', 'fallbak = "b"', UnknownName, "winners.toml:7 'fallbak'"),
    ('fallback = "b"  # right for all\n', "", BrokenWinners, "winners.toml:6: [gfx950] needs fallback"),
    ('fallback = "b"', 'fallback = "bb"', UnknownName, "unknown variant in variants/winners.toml:7 'bb'"),
    ('"1" = {', '"11" = {', UnknownName, "unknown shape in variants/winners.toml:12 '11'"),
    ('"1" = {', '"11" = {', UnknownName, "did you mean 1?"),
    ('variant = "a"', 'variant = "c"', UnknownName, "unknown variant in variants/winners.toml:12 'c'"),
    ('variant = "a", ', "", BrokenWinners, 'winners.toml:12: "1" has no variant'),
    (', why = "measured: 3 µs"', "", BrokenWinners, 'winners.toml:12: "1" has no why'),
    ("why = \"measured: 3 µs\"", 'why = "a\\nb"', BrokenWinners, "winners.toml:12: why of \"1\" must be one line"),
    ("why = \"measured", 'wy = 1, why = "measured', UnknownName, "winners.toml:12 'wy'"),
    ("12345.5", "-1", BrokenWinners, 'winners.toml:11: time_ns of "2" must be a positive number'),
    ("12345.5", "true", BrokenWinners, "must be a positive number, not True"),
    ('{ variant = "a", why = "measured: 3 µs" }', '"a"', BrokenWinners, 'winners.toml:12: "1" must be a table'),
    ('[sm_90]\nfallback = "a"\n', "", BrokenWinners, "no winners for target sm_90 (there are: gfx950)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "kind", "message"), BROKEN)
def test_a_broken_file_gets_one_line_that_names_the_place(
    old: str, new: str, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    assert old in GOOD
    with pytest.raises(kind) as caught:
        read(tmp_path, GOOD.replace(old, new, 1)).of("sm_90")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": ENTRY})
    with pytest.raises(BrokenWinners, match=r"no such file: variants/winners.toml"):
        (tmp_path / "variants" / "winners.toml").unlink()
        read_winners(tmp_path / "variants" / "winners.toml", problem)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": ENTRY})
    path = tmp_path / "variants" / "winners.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BrokenWinners, match="cannot be read"):
        read_winners(path, problem)


def test_an_unknown_target_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean gfx950"):
        read(tmp_path, GOOD).of("gfx940")


# -- whether a winner fits its place ----------------------------------------------------------------------------


def declared(text: str) -> str:
    """A variant that declares this."""
    return f"VARIANT = {text}\n\n\n{ENTRY}"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ('{"shapes": ["2"]}', "{}", "a is for 2, not for 1"),
        ('{"targets": ["sm_90"]}', "{}", "a is for sm_90, not for gfx950"),
        ("{}", '{"shapes": ["1", "2"]}', "the fallback b is for 1, 2 only"),
        ('{"shapes": {"1": {}}, "targets": ["gfx950"]}', "{}", "a is a merged file itself"),
    ],
)
def test_a_variant_in_a_place_that_it_does_not_take_is_refused(a: str, b: str, message: str, tmp_path: Path) -> None:
    problem = make_problem(
        tmp_path, {"a": declared(a), "b": declared(b)}, winners_text({"1": "a", "2": "b"}, "b", "gfx950")
    )
    with pytest.raises(BrokenWinners, match=message):
        merge(problem, "gfx950")


def test_a_portable_variant_is_taken_on_every_target(tmp_path: Path) -> None:
    text = declared('{"shapes": "any", "targets": ["portable"]}')
    for target in TARGETS:
        problem = make_problem(tmp_path / target, {"a": text}, winners_text({"1": "a"}, "a", target))
        assert merge(problem, target).fallback == "a"


# -- writing ----------------------------------------------------------------------------------------------------


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    """A problem with the variants a and b and the file GOOD."""
    return make_problem(tmp_path, {"a": ENTRY, "b": ENTRY}, GOOD)


def test_only_the_lines_of_the_new_winners_change(problem: Problem) -> None:
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    new = {"1": Winner("b", 'faster by 3 % "here"', "r18", 99.0), "3": Winner("a", "only one")}
    edited = with_winners(GOOD, winners, "gfx950", new, problem)
    removed = [line for line in GOOD.split("\n") if line not in edited.split("\n")]
    added = [line for line in edited.split("\n") if line not in GOOD.split("\n")]
    assert removed == ['"1" = { variant = "a", why = "measured: 3 µs" }']
    assert added == [
        '"1" = { variant = "b", why = "faster by 3 % \\"here\\"", record = "r18", time_ns = 99.0 }',
        '"3" = { variant = "a", why = "only one" }',
    ]
    assert edited.index("[sm_90]") > edited.index('"3" =')


def test_a_comment_behind_a_replaced_winner_stays(problem: Problem) -> None:
    text = GOOD.replace('3 µs" }', '3 µs" }  # kept')
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    edited = with_winners(text, winners, "gfx950", {"1": Winner("b", "new")}, problem)
    assert '"1" = { variant = "b", why = "new" }  # kept' in edited


def test_a_target_without_a_table_of_shapes_gets_one(problem: Problem) -> None:
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    edited = with_winners(GOOD, winners, "sm_90", {"2": Winner("a", "new")}, problem)
    assert edited == GOOD + "\n" + "\n".join(winner_lines("sm_90", {"2": Winner("a", "new")})) + "\n"


def test_a_layout_that_cannot_be_edited_is_refused_with_the_lines_to_paste(tmp_path: Path) -> None:
    text = PLATFORM + '[gfx950]\nfallback = "a"\n[gfx950.shapes."1"]\nvariant = "a"\nwhy = "x"\n'
    problem = make_problem(tmp_path, {"a": ENTRY, "b": ENTRY}, text)
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    line = winner_line("1", Winner("b", "new"))
    with pytest.raises(BrokenWinners) as caught:
        with_winners(text, winners, "gfx950", {"1": Winner("b", "new")}, problem)
    assert line in str(caught.value)


# -- the project's own file -------------------------------------------------------------------------------------


def test_the_projects_winners_cover_every_shape_of_every_target() -> None:
    problem = open_problem(ROOT)
    winners = read_winners(problem.variants_folder / "winners.toml", problem)
    labels = [shape.label for shape in problem.shapes]
    assert tuple(winners.targets) == TARGETS
    for target in TARGETS:
        assert list(winners.of(target).shapes) == labels
    assert {winner.variant for winner in winners.of("portable").shapes.values()} == {"portable"}
