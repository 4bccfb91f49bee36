"""Rules on the `#!POPCORN` lines that tell the server which leaderboard and GPU a file is for.

What the server reads. Source: gpu-mode/kernelbot, src/libkernelbot/submission.py (2026): line after line from the
top while each starts with `#` or `//`; the first word is exactly `#!POPCORN` or `//!POPCORN`, the second a keyword
in any case, then at least one argument.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

_MARKS = ("#!POPCORN", "//!POPCORN")
_KEYWORDS = {"leaderboard": "leaderboard", "gpu": "gpus", "gpus": "gpus"}


class _Directive(NamedTuple):
    line: int
    words: list[str]

    @property
    def keyword(self) -> str:
        return self.words[1].strip().lower() if len(self.words) > 1 else ""


def _read(source: Source) -> tuple[list[_Directive], int]:
    """The directives that the server reads, and the number of lines of the block that it reads."""
    block = list(itertools.takewhile(lambda line: line.startswith(("#", "//")), source.lines))
    split = [_Directive(number, line.split()) for number, line in enumerate(block, 1)]
    return [directive for directive in split if directive.words[0] in _MARKS], len(block)


def _unknown(source: Source) -> Hits:
    for directive in _read(source)[0]:
        if directive.keyword and len(directive.words) > 2 and directive.keyword not in _KEYWORDS:
            yield directive.line, f"unknown directive '{directive.words[1]}' (accepted: leaderboard, gpu, gpus)"


def _duplicate(source: Source) -> Hits:
    first: dict[str, int] = {}
    for directive in _read(source)[0]:
        keyword = _KEYWORDS.get(directive.keyword)
        if keyword is None or len(directive.words) < 3:
            continue
        if keyword in first:
            yield directive.line, f"a second '{keyword}' directive (the first is in line {first[keyword]}): keep one"
        first.setdefault(keyword, directive.line)


def _empty(source: Source) -> Hits:
    for directive in _read(source)[0]:
        if len(directive.words) < 3:
            what = directive.keyword or "a keyword and its value"
            yield directive.line, f"directive without a value: write `#!POPCORN {what} …`"


def _ignored(source: Source) -> Hits:
    directives, block = _read(source)
    read = {directive.line for directive in directives}
    if source.text.startswith("\ufeff") and "!POPCORN" in source.lines[0]:
        yield 1, "ignored by the server: a byte-order mark comes before the `#`; save the file as UTF-8 without it"
    if "!popcorn" not in source.text.lower():
        return
    for number, line in enumerate(source.lines[:block], 1):
        words = line.split()
        if number not in read and any(word.lower().lstrip("#/").startswith("!popcorn") for word in words[:2]):
            yield number, f"ignored by the server: it has to begin with `#!POPCORN`, not `{' '.join(words[:2])}`"
    for directive in directives:
        if _KEYWORDS.get(directive.keyword) == "leaderboard" and len(directive.words) > 3:
            yield directive.line, f"the server reads '{directive.words[2]}' and ignores the rest of the line"
    if not any("!popcorn" in line.lower() for line in source.lines[block:]):
        return
    for number, column, text in source.comments:
        if number > block and text.lower().startswith("#!popcorn"):
            why = "it is not at the beginning of its line" if column else "a line that is no comment comes before it"
            yield number, f"ignored by the server: {why}; move it into the block of `#` lines at the very top"


def _missing(source: Source) -> Hits:
    if not any(directive.keyword == "leaderboard" for directive in _read(source)[0]):
        yield 1, "no `#!POPCORN leaderboard NAME` at the top: the name must then be given with each upload"


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("directive-unknown", True, _unknown)
    yield Rule("directive-duplicate", True, _duplicate)
    yield Rule("directive-empty", True, _empty)
    yield Rule("directive-ignored", False, _ignored)
    yield Rule("directive-missing", False, _missing)
