"""Which definitions hold state: an object that can change after the import.

Two variants must never share one: alone, each has its own. So a definition with state stays one copy a variant,
however alike the sources are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from harness.assembly.known_calls import (
    FRESH_CALLS,
    READING_CALLS,
    READING_METHODS,
    TEXT_METHODS,
    TEXT_METHODS_GIVING_LISTS,
    is_constant_call,
)
from harness.assembly.source_file import SourceFile, root_name

_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp, ast.GeneratorExp)
_CACHES = ("functools.lru_cache", "functools.cache", "torch.compile")


def names_with_state(file: SourceFile) -> frozenset[str]:
    """The module-level names of `file` whose object can change after the import.

    That is: names rebound through `global`; objects that a function writes into; functions with a cache or a
    mutable default; fresh containers, unless they hold only constants and are only ever read.
    """
    tables: set[str] = set()
    state: set[str] = set()
    for part in file.parts:
        state |= {
            found.name for found in part.occurrences if found.stores and found.deferred and found.reach == "module"
        }
        state |= set(_written_into(part.nodes))
        kind = _kind(file, part.node)
        if kind == "state":
            state |= part.binds
        elif kind == "table":
            tables |= part.binds
    return frozenset(state | (tables & _names_not_only_read(file, tables)))


def _kind(file: SourceFile, node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [default for default in [*node.args.defaults, *node.args.kw_defaults] if default is not None]
        cached = any(file.dotted(_called(decorator)) in _CACHES for decorator in node.decorator_list)
        fresh = any(_is_fresh(file, default) for default in defaults)
        return "state" if cached or fresh else "constant"
    if isinstance(node, ast.ClassDef):
        return "state" if any(_kind(file, inner) != "constant" for inner in node.body) else "constant"
    kinds = [_kind_of_value(file, value) for value in _values(node)]
    return "state" if "state" in kinds else "table" if "table" in kinds else "constant"


def _values(node: ast.stmt) -> Iterator[ast.expr]:
    """What a statement assigns, blocks included."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
        yield node.value
    elif isinstance(node, ast.For):
        yield node.iter
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _values(child)


def _kind_of_value(file: SourceFile, value: ast.expr) -> str:
    if not _is_fresh(file, value):
        return "constant"
    if not isinstance(value, ast.Dict | ast.List | ast.Set):
        return "state"
    items = [item for item in ast.iter_child_nodes(value) if isinstance(item, ast.expr)]
    return "table" if items and not any(_is_fresh(file, item) for item in items) else "state"


def _is_fresh(file: SourceFile, value: ast.expr) -> bool:
    """Whether the value holds an object that can change."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, _DISPLAYS):
            return True
        if isinstance(node, ast.Call):
            if not _gives_constant(file, node):
                return True
            # Its arguments are consumed: the result is a constant whatever they were.
            continue
        waiting += ast.iter_child_nodes(node)
    return False


def _gives_constant(file: SourceFile, call: ast.Call) -> bool:
    full = file.dotted(call.func)
    if full in FRESH_CALLS:
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr in TEXT_METHODS - TEXT_METHODS_GIVING_LISTS:
        return True
    return is_constant_call(full) or (isinstance(call.func, ast.Name) and _is_frozen_class(file, call.func.id))


def _is_frozen_class(file: SourceFile, name: str) -> bool:
    for node in file.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            return "frozen=True" in decorators or any("NamedTuple" in ast.unparse(base) for base in node.bases)
    return False


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _written_into(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that the code of a function writes through: `cache[key] = …`, `launch.count += 1`."""
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from filter(None, [root_name(node)])


def _names_not_only_read(file: SourceFile, tables: set[str]) -> set[str]:
    """Those of `tables` that are used in any way but looking up, testing and iterating."""
    if not tables:
        return set()
    used, read = dict.fromkeys(tables, 0), dict.fromkeys(tables, 0)
    for node in file.nodes:
        if isinstance(node, ast.Name) and node.id in tables and isinstance(node.ctx, ast.Load):
            used[node.id] += 1
        for value in _read_by(node):
            if isinstance(value, ast.Name) and value.id in tables:
                read[value.id] += 1
    return {name for name in tables if used[name] > read[name]}


def _read_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.Compare):
        return [
            value
            for operator, value in zip(node.ops, node.comparators, strict=True)
            if isinstance(operator, ast.In | ast.NotIn)
        ]
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in READING_CALLS:
            return list(node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr in READING_METHODS:
            return [node.func.value]
    return []
