"""Rewrites the names of one statement and nothing else of its text: LibCST keeps every comment and space.

Importing LibCST takes a quarter of a second: import this module only where a name has to change.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from functools import cache

import libcst
from libcst import CSTNode

from harness.assembly.fragments import Fragment, ParsedAlone, fragments
from harness.assembly.scopes import Occurrence, annotation_tree, occurrences
from harness.assembly.source_file import Part
from harness.errors import CannotMerge


def renamed_text(part: Part, changes: Mapping[str, str]) -> str:
    """The text of `part` with the module's names changed, locals and keywords of the same spelling left alone.

    The statement's own scope analysis (`part.occurrences`) says, in source order, which identifiers are the
    module's; LibCST meets the same identifiers in the same order. The result is analysed again: it must use
    exactly the new names. Raises CannotMerge where it does not, or where a name cannot be changed.
    """
    _refuse_unclear(part, changes)
    touched = [found for found in part.occurrences if found.name in changes]
    lines = part.text.split("\n")
    # From the last, so that the places of those before stay as they are.
    for fragment in reversed(_fragments(part, {found.line for found in touched if found.reach == "module"})):
        inside = [found for found in touched if fragment.first <= found.line <= fragment.last]
        place = slice(fragment.first - part.first_line, fragment.last - part.first_line + 1)
        lines[place] = _renamed_fragment(part, fragment, "\n".join(lines[place]), inside, changes).split("\n")
    text = "\n".join(lines)
    try:
        _check(part, changes, text)
    except _MismatchError:
        raise _unclear(part, part.line, changes) from None
    return text


def _fragments(part: Part, lines: set[int]) -> list[Fragment]:
    if part.shares_line:
        return [Fragment(part.first_line, part.first_line + part.text.count("\n"))]
    return fragments(part.node, lines)


def _renamed_fragment(
    part: Part, fragment: Fragment, text: str, inside: Iterable[Occurrence], changes: Mapping[str, str]
) -> str:
    alone = ParsedAlone(text, fragment.is_header)
    decisions = {name: deque() for name in changes}
    for found in inside:
        decisions[found.name].append(found.reach == "module")
    try:
        tree = libcst.parse_module(alone.source)
        return alone.text(_Renaming(changes, decisions, part).of(tree).code)
    except libcst.ParserSyntaxError as error:
        reason = f"LibCST cannot read this statement: {error.message.partition(';')[0][:80]}"
        raise CannotMerge(part.path, fragment.first, reason) from None
    except IndexError:
        raise _unclear(part, fragment.first, changes) from None


def _unclear(part: Part, line: int, changes: Mapping[str, str]) -> CannotMerge:
    listed = ", ".join(sorted(changes))
    return CannotMerge(part.path, line, f"cannot tell which uses of {listed} are the module's; rename it")


class _MismatchError(Exception):
    pass


def _refuse_unclear(part: Part, changes: Mapping[str, str]) -> None:
    for found in part.occurrences:
        if found.reach == "class" and found.name in changes:
            raise CannotMerge(
                part.path,
                found.line,
                f"a class body both reads the global {found.name} and binds it; give one of them another name",
            )


def _check(part: Part, changes: Mapping[str, str], text: str) -> None:
    """The new text uses the module's names as the old one did, each under its new name, and no other."""
    wanted = Counter(
        changes.get(found.name, found.name) if found.reach == "module" else f"local {found.name}"
        for found in part.occurrences
    )
    after = (found for statement in ast.parse(text).body for found in occurrences(statement))
    if wanted != Counter(found.name if found.reach == "module" else f"local {found.name}" for found in after):
        raise _MismatchError


class _Renaming:
    def __init__(self, changes: Mapping[str, str], decisions: Mapping[str, deque[bool]], part: Part) -> None:
        self._changes = changes
        self._decisions = decisions
        self._part = part

    def of(self, node: CSTNode, in_annotation: bool = False) -> CSTNode:
        """The node with the names changed; the very same one where there is nothing to change."""
        if isinstance(node, libcst.Name):
            return self._name(node)
        if isinstance(node, libcst.ImportAlias):
            return self._import_alias(node)
        if isinstance(node, libcst.SimpleString):
            return self._annotation_string(node) if in_annotation else node
        in_annotation = in_annotation or isinstance(node, libcst.Annotation)
        changed = {}
        for field in _fields(type(node)):
            old = getattr(node, field)
            inner = in_annotation and not (field == "slice" and _is_literal_type(node))
            if isinstance(old, CSTNode):
                new = self.of(old, inner)
            elif isinstance(old, tuple | list):
                new = [self.of(item, inner) if isinstance(item, CSTNode) else item for item in old]
                new = old if all(item is before for item, before in zip(new, old, strict=True)) else new
            else:
                continue
            if new is not old:
                changed[field] = new
        if not changed:
            return node
        if isinstance(node, libcst.FormattedStringExpression) and node.equal is not None:
            self._refuse("an f-string prints a name with `=`, and the name has to change; spell the text out")
        return node.with_changes(**changed)

    def _name(self, node: libcst.Name) -> libcst.Name:
        return node.with_changes(value=self._changes[node.value]) if self._decide(node.value) else node

    def _decide(self, name: str) -> bool:
        return name in self._changes and self._decisions[name].popleft()

    def _import_alias(self, node: libcst.ImportAlias) -> libcst.ImportAlias:
        if node.asname is not None:
            asname = node.asname.with_changes(name=self.of(node.asname.name))
            return node if asname.name is node.asname.name else node.with_changes(asname=asname)
        first = node.evaluated_name.partition(".")[0]
        if not self._decide(first):
            return node
        if "." in node.evaluated_name:
            self._refuse(f"`import {node.evaluated_name}` binds {first}, which has to change; import it with `as`")
        space = libcst.SimpleWhitespace(" ")
        return node.with_changes(
            asname=libcst.AsName(
                libcst.Name(self._changes[first]), whitespace_before_as=space, whitespace_after_as=space
            )
        )

    def _annotation_string(self, node: libcst.SimpleString) -> libcst.SimpleString:
        text = node.raw_value
        if "\\" in text or annotation_tree(text) is None:
            return node
        old = libcst.parse_expression(text.strip())
        new = self.of(old, in_annotation=True)
        if new is old:
            return node
        code = libcst.Module([]).code_for_node(new)
        return node.with_changes(value=f"{node.prefix}{node.quote}{code}{node.quote}")

    def _refuse(self, reason: str) -> None:
        raise CannotMerge(self._part.path, self._part.line, reason)


# Fields that hold identifiers, in source order, where the class's own order or set of fields is another one.
_SOURCE_ORDER = {
    "Attribute": ("value",),
    "Arg": ("value",),
    "MatchKeywordElement": ("pattern",),
    "ImportFrom": ("names",),
    "FunctionDef": ("decorators", "name", "type_parameters", "params", "returns", "body"),
    "ClassDef": ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    "Parameters": ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    "ExceptHandler": ("type", "name", "body"),
    "ExceptStarHandler": ("type", "name", "body"),
    "IfExp": ("body", "test", "orelse"),
    "MatchMapping": ("elements", "rest"),
    "MatchClass": ("cls", "patterns", "kwds"),
    "TypeAlias": ("name", "type_parameters", "value"),
}
_LAYOUT = ("whitespace", "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "leading_lines", "lines_after")
_LAYOUT_NAMES = frozenset(
    (
        "header", "footer", "comma", "semicolon", "equal", "colon", "dot", "indent", "newline", "trailing_whitespace",
        "operator", "asynchronous", "encoding", "default_indent", "default_newline", "has_trailing_newline",
        "posonly_ind", "separator",
    )
)  # fmt: skip


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a LibCST class that can hold identifiers, in source order."""
    if kind.__name__ in _SOURCE_ORDER:
        return _SOURCE_ORDER[kind.__name__]
    fields = kind.__dataclass_fields__
    return tuple(name for name in fields if not name.startswith(_LAYOUT) and name not in _LAYOUT_NAMES)


def _is_literal_type(node: CSTNode) -> bool:
    value = getattr(node, "value", None)
    return (
        getattr(value, "value", None) == "Literal" or getattr(getattr(value, "attr", None), "value", None) == "Literal"
    )
