"""One file of the merge, taken apart: its imports, and its other statements with their comments as they stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.assembly.imports import Import, imports_of
from harness.assembly.scopes import Occurrence, bound_by_import, children, nodes_below, occurrences
from harness.assembly.slices import comments_at_end, slices
from harness.errors import CannotMerge
from harness.problem.variant import parse_source

# `#!POPCORN …`, `#!/usr/bin/env python` and coding lines belong to the file, not to the code below them.
_FILE_COMMENT = re.compile(r"#!|#.*?coding[:=]\s*[-\w.]+")


@dataclass(frozen=True, eq=False)
class Part:
    """One module-level statement that is no plain import.

    text: the source with the comments above it, no blank lines around; first_line: where it starts.
    blank_lines: how many stood before it. shares_line: a semicolon parts it from another statement.
    imported: the names that the file's plain imports bind.
    """

    path: Path
    node: ast.stmt
    text: str
    first_line: int
    blank_lines: int
    shares_line: bool = False
    imported: frozenset[str] = frozenset()

    @property
    def line(self) -> int:
        """The statement's line in its file."""
        return self.node.lineno

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The statement's syntax tree, flat."""
        return nodes_below(self.node)

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """The identifiers in it, in source order."""
        return occurrences(self.node)

    @cached_property
    def binds(self) -> frozenset[str]:
        """The module's names that it defines, rebinds at run time, or whose object it changes at import."""
        bound = {found.name for found in self.occurrences if found.stores and found.reach == "module"}
        return frozenset(bound | (set(_changed_at_import(self.node)) - self.imported))

    @cached_property
    def needs(self) -> frozenset[str]:
        """The names that it takes from the module, its own included."""
        return frozenset(found.name for found in self.occurrences if found.reach != "local")

    @cached_property
    def meaning(self) -> str:
        """Equal for two parts whose code is equal, comments, layout and docstrings aside."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _has_docstring(node):
                node.body = node.body[1:] or [ast.Pass()]
        return ast.dump(self.node)


@dataclass(frozen=True, eq=False)
class SourceFile:
    """path: as shown in messages. preface: its docstring and the comments above its first part, without `#`."""

    path: Path
    tree: ast.Module
    preface: tuple[str, ...]
    future: frozenset[str]
    imports: tuple[Import, ...]
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The file's name without `.py`."""
        return self.path.stem

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The file's syntax tree, flat."""
        of_parts = {part.node: part for part in self.parts}
        trees = (of_parts[node].nodes if node in of_parts else nodes_below(node) for node in self.tree.body)
        return [node for tree in trees for node in tree]

    @cached_property
    def dotted_names(self) -> dict[str, str]:
        """Local name → what it was imported as, such as `tl` → `triton.language`; imports in functions included."""
        names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names[bound_by_import(alias)] = alias.name if alias.asname else bound_by_import(alias)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.update({bound_by_import(alias): f"{node.module}.{alias.name}" for alias in node.names})
        return names

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of an expression such as `tl.constexpr`: `triton.language.constexpr`; None for any other."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.dotted_names.get(node.id, node.id), *reversed(attributes)])


def root_name(node: ast.AST) -> str | None:
    """The name that a chain of attributes and subscripts starts from, or None."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _has_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _changed_at_import(statement: ast.stmt) -> Iterator[str]:
    """Names whose object a module-level statement changes: `TABLE[0] = 1`, `CONFIGS.append(…)`, `f.limit = 3`."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                yield from filter(None, [root_name(node)])
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Attribute):
                yield from filter(None, [root_name(node.value.func)])
        elif isinstance(node, ast.Tuple | ast.List | ast.Starred) or not isinstance(node, _RUNS_LATER | ast.expr):
            waiting += children(node)


_RUNS_LATER = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_source_file(source: str, path: Path) -> SourceFile:
    """Take `source` apart. Raises BrokenSubmission for a syntax error, CannotMerge for a relative or star import."""
    tree = parse_source(source, path)
    preface: list[str] = []
    future: set[str] = set()
    imports: list[Import] = []
    parts: list[Part] = []
    for piece in slices(tree, source):
        node = piece.node
        found = imports_of(node, piece.text, path)
        docstring = (ast.get_docstring(tree) or "") if node is tree.body[0] else ""
        if docstring or found is not None or _is_future(node):
            if not parts:
                preface += [*piece.comments, *docstring.split("\n")]
            elif piece.comments:
                parts.append(_comment_part(path, piece.comments))
            if _is_future(node):
                future.update(alias.name for alias in node.names)
            imports += found or ()
        elif not _is_main_guard(node, path):
            text = "\n".join([*piece.comments, piece.text])
            parts.append(Part(path, node, text, piece.first_line, piece.blank_lines, piece.shares_line))
    last = comments_at_end(tree, source)
    if last and parts:
        parts.append(_comment_part(path, last))
    imported = frozenset(item.local for item in imports)
    parts = [replace(part, imported=imported) for part in parts]
    return SourceFile(path, tree, _without_hashes(preface), frozenset(future), tuple(imports), tuple(parts))


def _comment_part(path: Path, comments: tuple[str, ...]) -> Part:
    place = ast.Pass(lineno=0, col_offset=0, end_lineno=0, end_col_offset=0)
    return Part(path, place, "\n".join(comments), 0, 1)


def _without_hashes(comments: Iterable[str]) -> tuple[str, ...]:
    kept = [comment for comment in comments if not _FILE_COMMENT.match(comment)]
    text = "\n".join(re.sub(r"^# ?", "", comment) for comment in kept).strip("\n")
    return tuple(text.split("\n")) if text else ()


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_main_guard(node: ast.stmt, path: Path) -> bool:
    """`if __name__ == "__main__":` never runs in a submission. Raises CannotMerge where its `else` would."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    if ast.unparse(node.test) not in ("__name__ == '__main__'", "'__main__' == __name__"):
        return False
    if node.orelse:
        raise CannotMerge(path, node.lineno, 'the `else` of an `if __name__ == "__main__"` runs at import; remove it')
    return True
