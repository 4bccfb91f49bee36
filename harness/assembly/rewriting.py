"""Changes names in a piece of source and nothing else of its text: LibCST keeps every comment and space.

Importing LibCST takes a quarter of a second: import this module only when a piece has to be rewritten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache

import libcst
from libcst import CSTNode

from harness.assembly.scopes import annotation_tree


class RewriteError(Exception):
    """A piece in which the names cannot be changed; the message says why."""


def rewritten(source: str, changes: Mapping[str, str], decisions: Mapping[str, Sequence[bool]]) -> str:
    """`source` with names changed. changes: old name → new name.

    decisions: for each old name, whether to change its first, second, … identifier in the source; attributes and
    keywords are not counted. Raises RewriteError.
    """
    try:
        tree = libcst.parse_module(source)
    except libcst.ParserSyntaxError as error:
        short = error.message.partition(";")[0][:80]
        raise RewriteError(f"LibCST cannot read this statement: {short}") from None
    return _Renaming(changes, decisions).of(tree).code


class _Renaming:
    def __init__(self, changes: Mapping[str, str], decisions: Mapping[str, Sequence[bool]]) -> None:
        self._changes = changes
        self._decisions = {name: deque(uses) for name, uses in decisions.items()}

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
            raise RewriteError("an f-string prints a name with `=`, and the name has to change; spell the text out")
        return node.with_changes(**changed)

    def _name(self, node: libcst.Name) -> libcst.Name:
        return node.with_changes(value=self._changes[node.value]) if self._decide(node.value) else node

    def _decide(self, name: str) -> bool:
        if name not in self._changes:
            return False
        if not self._decisions.get(name):
            raise RewriteError(f"cannot tell which uses of {name} are the module's; rename it")
        return self._decisions[name].popleft()

    def _import_alias(self, node: libcst.ImportAlias) -> libcst.ImportAlias:
        if node.asname is not None:
            asname = node.asname.with_changes(name=self.of(node.asname.name))
            return node if asname.name is node.asname.name else node.with_changes(asname=asname)
        first = node.evaluated_name.partition(".")[0]
        if not self._decide(first):
            return node
        if "." in node.evaluated_name:
            name = node.evaluated_name
            raise RewriteError(f"`import {name}` binds {first}, which has to change; import it with `as`")
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
