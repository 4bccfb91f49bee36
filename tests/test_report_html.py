"""The HTML report: everything in one file, readable without its plots, on a phone and by a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from assembly_cases.problem_folder import make_problem
from test_records_pick import ENTRY, FILE, prepared
from test_records_store import a_case, a_run, opened

from harness.cli.main import run as harness
from harness.report.html.figures import page_of
from harness.report.html.render import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")


def written(root: Path, output: Path) -> str:
    assert harness(["report", "--problem", str(root), "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Two variants with an A/B, several runs, and one run beside a peer, whose name would break HTML."""
    prepared(tmp_path)
    with opened(tmp_path) as store:
        for number, mean_ns in ((11, 11_000.0), (12, 10_500.0)):
            run = a_run(number, commit="abcdef1234567+changes", started_at=f"2026-12-{number}T00:00:00Z")
            store.add(run, a_case(run, variant="a", shape="1", mean_ns=mean_ns, floor_ns=2_000.0, error=0.002))
        run = a_run(13, options={"peers": True}, started_at="2026-12-13T00:00:00Z")
        own = a_case(run, 1, variant="a", shape="1", mean_ns=10_000.0, floor_ns=2_000.0, reads="fp8")
        peer = a_case(run, 2, variant="<peer & co>", file="bench/peers/p.py", shape="1", mean_ns=30_000.0, reads="bf16")
        store.add(run, own, peer)
    return tmp_path


class Text(HTMLParser):
    """The words of a page, the tags that were opened, and what was left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_whole_and_says_what_the_records_say(filled: Path, tmp_path: Path) -> None:
    page = Text(written(filled, tmp_path / "out" / "report.html"))
    assert page.open == []
    text = " ".join(" ".join(page.words).split())
    for said in ("10.0 µs", "30.0 µs", "FASTER", "20 %", "abcdef1+", "published", "<peer & co>"):
        assert said in text, said


def test_it_asks_for_nothing_from_a_network_and_runs_nothing(filled: Path, tmp_path: Path) -> None:
    page = written(filled, tmp_path / "report.html")
    outside = [each for each in re.findall(r"[a-z]+://[^\s\"'<]*", page) if "www.w3.org" not in each]
    assert outside == []
    tags = Text(page).tags
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags}
    assert "@import" not in page


def test_every_plot_has_a_title_a_description_and_a_table(filled: Path, tmp_path: Path) -> None:
    page = written(filled, tmp_path / "report.html")
    tags = Text(page).tags
    plots = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(plots) == 3  # times, comparisons, the history of one shape
    ids = [attributes["id"] for _, attributes in tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    for attributes in plots:
        assert attributes["role"] == "img"
        assert all(name in ids for name in attributes["aria-labelledby"].split())
    assert sum(tag == "details" for tag, _ in tags) == 3
    assert "Fastest: S1 a 10 µs" in page
    assert "a is FASTER against b on 1, 0.500 [0.490 0.510]" in page


def test_the_same_records_give_the_same_bytes(filled: Path, tmp_path: Path) -> None:
    assert written(filled, tmp_path / "one.html") == written(filled, tmp_path / "two.html")


def test_a_folder_without_records_gets_a_page_that_says_so(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": ENTRY.format("a"), "b": ENTRY.format("b")}, FILE)
    with opened(tmp_path) as store:
        page = render(page_of(problem, None, store))
    assert page.count("No timed record yet.") == 2
    assert "No comparison yet" in page


def test_without_a_run_of_several_kernels_it_says_that_the_times_are_not_of_one_run(tmp_path: Path) -> None:
    prepared(tmp_path)
    assert "The newest record of each, not of one run." in written(tmp_path, tmp_path / "report.html")


def browse(page: Path, width: int, *arguments: str) -> str:
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access"]
    size = f"--window-size={width},2400"
    finished = subprocess.run(
        [*command, size, *arguments, page.resolve().as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return finished.stdout


@needs_chromium
def test_a_phone_shows_it_without_scrolling_sideways(filled: Path, tmp_path: Path) -> None:
    page = written(filled, tmp_path / "report.html")
    measured = tmp_path / "measured.html"
    script = "document.title = document.documentElement.scrollWidth + ' ' + window.innerWidth"
    # Chromium's own windows are at least 500 wide, so a frame stands for the phone.
    measured.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    for width in (500, 1200):
        found = re.search(r"<title>(\d+) (\d+)</title>", browse(measured, width, "--dump-dom"))
        assert found is not None
        assert int(found[1]) <= int(found[2])
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<title>-</title><iframe id="f" width="360" height="800" src="{measured.name}" onload="'
        'document.title = this.contentDocument.documentElement.scrollWidth"></iframe>'
    )
    found = re.search(r"<title>(\d+)</title>", browse(frame, 800, "--dump-dom", "--allow-file-access-from-files"))
    assert found is not None
    assert int(found[1]) <= 360


@needs_chromium
def test_a_browser_draws_it(filled: Path, tmp_path: Path) -> None:
    from matplotlib.image import imread

    written(filled, tmp_path / "report.html")
    shot = tmp_path / "shot.png"
    browse(tmp_path / "report.html", 500, f"--screenshot={shot}")
    pixels = imread(shot)[..., :3]
    assert pixels.shape[1] == 500
    drawn = (pixels < 0.9).any(axis=-1)
    # Text and plots cover some of the page and leave most of it white; the two kernels' colours are there.
    assert 0.005 < drawn.mean() < 0.5
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)):
        far = abs(pixels - [part / 255 for part in colour]).max(axis=-1)
        assert (far < 0.1).sum() > 20, colour
