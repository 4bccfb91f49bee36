"""Cuts a file's text at its module-level statements, so that every comment goes with the statement below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """One statement's text. first_line: where `comments` start, or the statement where there are none.

    comments: the comment lines above it. text: the statement, with a comment behind it and the indented ones that
    close its block. blank_lines: how many stood above both. shares_line: a semicolon parts it from another one.
    """

    node: ast.stmt
    comments: tuple[str, ...]
    text: str
    first_line: int
    blank_lines: int
    shares_line: bool


def slices(tree: ast.Module, source: str) -> Iterator[Slice]:
    """The statements of a module in order."""
    lines = source.split("\n")
    done = 0  # lines before the next statement's comments
    after_semicolon = False
    for index, node in enumerate(tree.body):
        start = first_line(node) - 1
        end = node.end_lineno or node.lineno
        following = tree.body[index + 1] if index + 1 < len(tree.body) else None
        before_semicolon = following is not None and following.lineno == end
        above = [] if after_semicolon else lines[done:start]
        blank_lines = next((count for count, line in enumerate(above) if line.strip()), len(above))
        comments = tuple(line.rstrip() for line in above[blank_lines:])
        body = lines[start:end]
        # The end first: both offsets count from the start of the whole line.
        if before_semicolon:
            body[-1] = body[-1].encode()[: node.end_col_offset].decode()
            done = end - 1
        else:
            done = end_of_block(lines, end)
            body += lines[end:done]
        if after_semicolon:
            body[0] = body[0].encode()[node.col_offset :].decode()
        yield Slice(
            node,
            comments,
            "\n".join(body).strip("\n"),
            start + 1 - len(comments),
            blank_lines,
            before_semicolon or after_semicolon,
        )
        after_semicolon = before_semicolon


def first_line(node: ast.stmt) -> int:
    """The line where a statement starts, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def end_of_block(lines: list[str], end: int) -> int:
    """The lines before and in a statement that ends with line `end`, with the indented comments closing its block."""
    line = end
    while line < len(lines) and (not lines[line].strip() or re.match(r"\s+#", lines[line])):
        line += 1
        if lines[line - 1].strip():
            end = line
    return end


def comments_at_end(tree: ast.Module, source: str) -> tuple[str, ...]:
    """The comment lines behind the last statement."""
    if not tree.body:
        return ()
    lines = source.split("\n")
    rest = "\n".join(line.rstrip() for line in lines[end_of_block(lines, tree.body[-1].end_lineno or 0) :]).strip("\n")
    return tuple(rest.split("\n")) if rest else ()
