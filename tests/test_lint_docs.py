"""docs/lint.md and the rules agree: each rule is described, and its examples do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.lint import RULES, lint_source

PAGE = Path(__file__).parent.parent / "docs" / "lint.md"
SECTIONS = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S))
# Rules on bytes and sizes, whose examples are told in words; tests/test_lint_text.py has them.
IN_WORDS = {"not-utf8", "too-large", "large-payload"}


def code_blocks(section: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)


def test_the_page_describes_exactly_the_rules_that_exist_in_their_order():
    assert list(SECTIONS) == [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_section_says_what_it_does_why_an_example_and_what_instead(rule):
    section = SECTIONS[rule.name]
    places = [section.find(f"**{part}.**") for part in ("What it does", "Why it is bad", "Example", "Instead")]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_section_says_whether_the_platform_refuses_the_file(rule):
    first_line = SECTIONS[rule.name].splitlines()[0]
    assert first_line.startswith("Refused" if rule.fatal else "Warning")


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.name not in IN_WORDS], ids=lambda rule: rule.name)
def test_the_example_is_found_and_its_replacement_is_not(rule):
    bad, good = code_blocks(SECTIONS[rule.name])
    assert [f.fatal for f in lint_source(bad, "example.py") if f.rule == rule.name][:1] == [rule.fatal]
    left = lint_source(good, "example.py")
    assert [f for f in left if f.rule == rule.name] == []
    assert [f for f in left if f.fatal and f.rule != "no-entry"] == []
