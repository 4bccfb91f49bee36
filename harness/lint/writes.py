"""Assignments to attributes of other objects, in whatever way they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from harness.lint.index import Site, Where
from harness.lint.names import dotted, folded, namespace_of
from harness.lint.source import Source

_SETTERS = {
    "setattr", "delattr", "builtins.setattr", "builtins.delattr", "object.__setattr__", "type.__setattr__",
    "object.__delattr__", "type.__delattr__",
}  # fmt: skip
_PATCHERS = {"unittest.mock.patch", "mock.patch"}


class Write(NamedTuple):
    """One attribute that is set or deleted.

    target: its dotted name, or None where the object is not known. attribute: its own name, or None where that is
    computed or stands for several (`vars(module).update(...)`).
    """

    line: int
    target: str | None
    attribute: str | None
    where: Where


@lru_cache(maxsize=1)
def attribute_writes(source: Source) -> tuple[Write, ...]:
    """Every write to an attribute: by assignment, `setattr`, a namespace dictionary or `unittest.mock.patch`."""
    stored = [write for site in source.index.stored for write in _stored(site)]
    return (*stored, *(write for site in source.index.calls for write in _called(source, site)))


def _stored(site: Site) -> Iterator[Write]:
    node, where = site
    if isinstance(node, ast.Attribute):
        yield Write(node.lineno, dotted(node, where.scope), node.attr, where)
    elif isinstance(node, ast.Subscript):
        owner = namespace_of(node.value, where.scope)
        if owner is not None:
            key = folded(node.slice, where.scope)
            yield Write(node.lineno, f"{owner}.{key or '*'}", key, where)


def _called(source: Source, site: Site) -> Iterator[Write]:
    node, where = site
    called = source.called[node]
    if called in _SETTERS and len(node.args) >= 2:
        yield _write_of(node, node.args[0], node.args[1], where)
    elif called in _PATCHERS and node.args:
        target = folded(node.args[0], where.scope)
        yield Write(node.lineno, target, target and target.rpartition(".")[2], where)
    elif called in {f"{patcher}.object" for patcher in _PATCHERS} and len(node.args) >= 2:
        yield _write_of(node, node.args[0], node.args[1], where)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("update", "setdefault", "pop", "__setitem__"):
        owner = namespace_of(node.func.value, where.scope)
        if owner is not None:
            key = folded(node.args[0], where.scope) if node.args and node.func.attr != "update" else None
            yield Write(node.lineno, f"{owner}.{key or '*'}", key, where)


def _write_of(node: ast.Call, owner: ast.expr, name: ast.expr, where: Where) -> Write:
    base, attribute = dotted(owner, where.scope), folded(name, where.scope)
    return Write(node.lineno, f"{base}.{attribute or '*'}" if base else None, attribute, where)
