"""The smallest pieces of a statement's text that hold given lines and can be parsed alone.

LibCST reads about ten lines a millisecond; a changed name stands on few lines of a kernel.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise

from harness.assembly.slices import first_line


@dataclass(frozen=True)
class Fragment:
    """Whole lines of a source: `first` to `last`, counted as `ast` does. is_header: a block's, without its body."""

    first: int
    last: int
    is_header: bool = False


def fragments(statement: ast.stmt, lines: set[int]) -> list[Fragment]:
    """Fragments that cover those of `lines` that lie in `statement`, in order and without overlap.

    A simple statement is one fragment, and so is the header of a function, class, loop or `if`; a statement with
    such a line elsewhere (an `elif`, an `except`, a `case`) is one as a whole.
    """
    first, last = first_line(statement), statement.end_lineno or statement.lineno
    inside = {line for line in lines if first <= line <= last}
    if not inside:
        return []
    body_start = _body_start(statement)
    if body_start is None:
        return [Fragment(first, last)]
    found = [Fragment(first, body_start - 1, is_header=True)] if min(inside) < body_start else []
    found += _inner_fragments(statement, inside)
    covered = {line for fragment in found for line in range(fragment.first, fragment.last + 1)}
    return found if inside <= covered else [Fragment(first, last)]


def _body_start(statement: ast.stmt) -> int | None:
    """The first line of a block's body, or None for what is no block or cannot be cut there."""
    body = getattr(statement, "body", None)
    if not body or first_line(body[0]) <= statement.lineno or isinstance(statement, ast.Try):
        return None
    children = [*body, *getattr(statement, "orelse", ())]
    return None if _share_lines(children) else first_line(body[0])


def _inner_fragments(statement: ast.stmt, lines: set[int]) -> list[Fragment]:
    found: list[Fragment] = []
    for child in [*statement.body, *getattr(statement, "orelse", ())]:
        if isinstance(child, ast.If) and child.col_offset == statement.col_offset:
            # An `elif`: its own line means nothing alone.
            found += _inner_fragments(child, lines) if _body_start(child) else []
        else:
            found += fragments(child, lines)
    return found


def _share_lines(statements: list[ast.stmt]) -> bool:
    return any(first_line(after) <= (before.end_lineno or 0) for before, after in pairwise(statements))


class ParsedAlone:
    """The text of a fragment made parseable: an indented one inside `if 1:`, a header with a body of `pass`."""

    def __init__(self, text: str, is_header: bool) -> None:
        indent = text[: len(text) - len(text.lstrip())]
        self._before = "if 1:\n" if indent else ""
        self._after = f"\n{indent}    pass" if is_header else ""
        self.source = f"{self._before}{text}{self._after}\n"

    def text(self, source: str) -> str:
        """The fragment's own text in a changed source."""
        return source.removeprefix(self._before).removesuffix("\n").removesuffix(self._after)
