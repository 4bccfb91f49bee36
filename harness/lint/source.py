"""A file as the rules see it: its bytes, its text and, once and only where a rule asks, its syntax tree."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from harness.lint.index import Index, Site, build_index
from harness.lint.names import dotted

# What Python's own parser takes for the end of a line (a form feed or U+2028 is none).
_LINE_END = re.compile(r"\r\n|\r|\n")


class Source:
    """One submission. `text` may start with a byte-order mark and have any line ends."""

    def __init__(self, text: str, path: Path | str) -> None:
        self.text = text
        self.path = Path(path)

    @cached_property
    def size_bytes(self) -> int:
        """The size of the upload."""
        return len(self.text.encode("utf-8", "surrogatepass"))

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return _LINE_END.split(self.text)

    @cached_property
    def _parsed(self) -> tuple[ast.Module, tuple[int, str] | None]:
        readable = self.text.removeprefix("\ufeff").encode("utf-8", "replace").decode("utf-8")
        try:
            return ast.parse(readable, filename=str(self.path)), None
        except SyntaxError as error:
            return ast.Module(body=[], type_ignores=[]), (error.lineno or 1, error.msg)
        except ValueError as error:
            return ast.Module(body=[], type_ignores=[]), (1, str(error))
        except (RecursionError, MemoryError):
            return ast.Module(body=[], type_ignores=[]), (1, "nested too deeply for the parser")

    @property
    def tree(self) -> ast.Module:
        """The syntax tree; empty where the file has a syntax error."""
        return self._parsed[0]

    @property
    def syntax_error(self) -> tuple[int, str] | None:
        """Line and message of the first syntax error, or None."""
        return self._parsed[1]

    @cached_property
    def index(self) -> Index:
        """The nodes of the tree by kind."""
        return build_index(self.tree)

    @cached_property
    def called(self) -> dict[ast.AST, str | None]:
        """For each call the dotted name of what it calls, None where that is not certain."""
        return {node: dotted(node.func, where.scope) for node, where in self.index.calls}

    def live_calls(self) -> Iterator[Site]:
        """The calls that can run under the evaluator."""
        return (site for site in self.index.calls if self.index.is_live(site.where))

    @cached_property
    def comments(self) -> list[tuple[int, int, str]]:
        """Line, column and text of each comment. Slow (tokenize), so only for rules that need it."""
        return [(*token.start, token.string) for token in self.tokens if token.type == tokenize.COMMENT]

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens up to the first one that cannot be read."""
        text = _LINE_END.sub("\n", self.text.removeprefix("\ufeff"))
        found: list[tokenize.TokenInfo] = []
        with contextlib.suppress(tokenize.TokenError, SyntaxError):
            found.extend(tokenize.generate_tokens(io.StringIO(text).readline))
        return found
