"""Finds what `custom_kernel` is: a function, or something that stands for one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from harness.lint.index import ENTRY, Function, is_main_guard
from harness.lint.names import dotted
from harness.lint.source import Source

Callable = Function | ast.Lambda
CACHES = frozenset({"functools.cache", "functools.lru_cache", "cachetools.cached"})


@dataclass(frozen=True)
class Entry:
    """One binding of `custom_kernel` at module level.

    function: what runs, or None where it cannot be told from the source (imported, or made by a library).
    receiver: the module-level name of the object whose method it is, or None. cached: wrapped in a result cache.
    """

    line: int
    function: Callable | None
    receiver: str | None = None
    cached: bool = False


def module_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in `if`, `try`, `with` and loops included, the main block left out."""
    for statement in body:
        if isinstance(statement, ast.If) and is_main_guard(statement.test):
            yield from module_statements(statement.orelse)
            continue
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from module_statements(getattr(statement, block, []))
        for handler in getattr(statement, "handlers", []):
            yield from module_statements(handler.body)


def find_entries(source: Source) -> list[Entry]:
    """Every binding of `custom_kernel` at module level, in order."""
    entries: list[Entry] = []
    for statement in module_statements(source.tree.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == ENTRY:
            entries.append(Entry(statement.lineno, statement, cached=is_cached(source, statement)))
        elif isinstance(statement, ast.ClassDef) and statement.name == ENTRY:
            entries.append(Entry(statement.lineno, None))
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == ENTRY for target in targets):
                entries.append(_entry_of(source, statement.value, statement.lineno))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name for alias in statement.names]
            entries += [Entry(statement.lineno, None)] * names.count(ENTRY)
    return entries


def is_cached(source: Source, function: Function) -> bool:
    """Whether a function is decorated to keep its results."""
    decorators = [node.func if isinstance(node, ast.Call) else node for node in function.decorator_list]
    return any(dotted(node, source.index.module) in CACHES for node in decorators)


def _entry_of(source: Source, value: ast.expr, line: int) -> Entry:
    """What `custom_kernel = value` binds."""
    functions = source.index.functions
    if isinstance(value, ast.Lambda):
        return Entry(line, value)
    if isinstance(value, ast.Name) and value.id in functions:
        return Entry(line, functions[value.id][-1], cached=is_cached(source, functions[value.id][-1]))
    if isinstance(value, ast.Name | ast.Attribute):
        return _method_entry(source, value, line)
    if not isinstance(value, ast.Call):
        return Entry(line, None)
    wrapped = next((inner for inner in value.args if isinstance(inner, ast.Name) and inner.id in functions), None)
    if wrapped is not None:
        wrapper = value.func.func if isinstance(value.func, ast.Call) else value.func
        cached = dotted(wrapper, source.index.module) in CACHES
        return Entry(line, functions[wrapped.id][-1], cached=cached)
    if isinstance(value.func, ast.Name):
        made = value.func.id
        for method in ("__call__", "forward"):
            if f"{made}.{method}" in functions:
                return Entry(line, functions[f"{made}.{method}"][-1], receiver=ENTRY)
        if made in functions:
            return Entry(line, _returned_function(functions[made][-1]))
    return Entry(line, None)


def _method_entry(source: Source, value: ast.Name | ast.Attribute, line: int) -> Entry:
    """`custom_kernel = runner` or `custom_kernel = runner.run`, where runner is an object of a class of the file."""
    base = value.value if isinstance(value, ast.Attribute) else value
    if isinstance(base, ast.Name):
        name = class_of(source, base.id)
        methods = (value.attr,) if isinstance(value, ast.Attribute) else ("__call__", "forward")
        for method in methods:
            if f"{name}.{method}" in source.index.functions:
                return Entry(line, source.index.functions[f"{name}.{method}"][-1], receiver=base.id)
    return Entry(line, None)


def class_of(source: Source, name: str) -> str | None:
    """The class of the file whose object a module-level name was assigned."""
    for binding in source.index.module.bindings.get(name, []):
        made = binding.func if isinstance(binding, ast.Call) else None
        if isinstance(made, ast.Name) and made.id in source.index.classes:
            return made.id
    return None


def _returned_function(factory: Function) -> Callable | None:
    """The function that a factory makes and returns."""
    made = {inner.name: inner for inner in factory.body if isinstance(inner, ast.FunctionDef)}
    for inner in ast.walk(factory):
        if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Name) and inner.value.id in made:
            return made[inner.value.id]
        if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Lambda):
            return inner.value
    return None
