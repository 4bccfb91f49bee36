"""Rules against reaching into other code through Python's own internals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.lint.index import Site
from harness.lint.names import dotted, folded
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source
from harness.lint.writes import attribute_writes

_CHANGES = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"})
_FRAME_NAMESPACES = frozenset({"f_globals", "f_locals", "f_builtins"})
_FRAME_READS = frozenset({
    "sys._getframe", "sys._current_frames", "inspect.currentframe", "inspect.stack", "inspect.trace",
    "inspect.getouterframes", "inspect.getinnerframes",
})  # fmt: skip
_HEAP_SEARCHES = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
_CODE_PARTS = frozenset({"__code__", "cell_contents"})
_POINTER_CALLS = frozenset({
    "ctypes.cast", "ctypes.memmove", "ctypes.memset", "ctypes.c_void_p", "ctypes.string_at",
    "ctypes.POINTER", "ctypes.c_char_p",
})  # fmt: skip


def _holds(node: ast.AST, site: Site, attributes: frozenset[str]) -> bool:
    """Whether an expression is, or is a name for, one of these attributes of something."""
    if isinstance(node, ast.Attribute):
        return node.attr in attributes
    if isinstance(node, ast.Call):
        called = dotted(node.func, site.where.scope)
        return called == "getattr" and len(node.args) > 1 and folded(node.args[1], site.where.scope) in attributes
    if isinstance(node, ast.Name):
        owner = site.where.scope.owner_of(node.id)
        bindings = owner.bindings[node.id] if owner else []
        values = [value for value in bindings if isinstance(value, ast.Attribute | ast.Call)]
        return any(_holds(value, site, attributes) for value in values)
    return False


def _namespace_changes(source: Source, attributes: frozenset[str]) -> Iterator[int]:
    """Lines that assign, delete or update an item of such a namespace."""
    for site in source.index.stored:
        if isinstance(site.node, ast.Subscript) and _holds(site.node.value, site, attributes):
            yield site.node.lineno
    for site in source.index.calls:
        method = site.node.func
        if isinstance(method, ast.Attribute) and method.attr in _CHANGES and _holds(method.value, site, attributes):
            yield site.node.lineno


def _mutated_globals(source: Source) -> Hits:
    for line in _namespace_changes(source, frozenset({"__globals__"})):
        yield line, "writes into the globals of another function: refused as tampering; pass values as arguments"


def _globals_write(source: Source) -> Hits:
    message = "binds a global through `globals()`: nothing can follow it, the merge included; write the assignment out"
    for node, where in source.index.stored:
        if isinstance(node, ast.Subscript) and _is_own_globals(node.value, Site(node, where)):
            yield node.lineno, message
    for node, where in source.index.calls:
        method = node.func
        changes = isinstance(method, ast.Attribute) and method.attr in _CHANGES - {"pop", "popitem"}
        if changes and _is_own_globals(method.value, Site(node, where)):
            yield node.lineno, message


def _is_own_globals(node: ast.AST, site: Site) -> bool:
    if isinstance(node, ast.Name):
        owner = site.where.scope.owner_of(node.id)
        bindings = owner.bindings[node.id] if owner else []
        return any(isinstance(value, ast.Call) and _is_own_globals(value, site) for value in bindings)
    return (
        isinstance(node, ast.Call)
        and not node.args
        and dotted(node.func, site.where.scope) in ("globals", "builtins.globals")
    )


def _frame_access(source: Source) -> Hits:
    for node, _ in source.index.calls:
        called = source.called[node]
        if called in _FRAME_READS:
            yield node.lineno, f"`{called}` looks at the caller, which is the evaluator: the guard takes note of it"
    for node, _ in source.index.attributes:
        if node.attr in _FRAME_NAMESPACES or node.attr == "f_back":
            yield node.lineno, f"`.{node.attr}` looks at the caller, which is the evaluator: the guard takes note of it"


def _frame_write(source: Source) -> Hits:
    for line in _namespace_changes(source, _FRAME_NAMESPACES):
        yield line, "writes into the variables of a calling frame: refused as tampering; return values instead"


def _heap_search(source: Source) -> Hits:
    for node, _ in source.index.calls:
        called = source.called[node]
        if called in _HEAP_SEARCHES:
            yield node.lineno, f"`{called}` finds the evaluator's objects: keep references to your own"


def _code_object(source: Source) -> Hits:
    for write in attribute_writes(source):
        if write.attribute in _CODE_PARTS:
            yield write.line, f"replaces `{write.attribute}` of a function: refused as tampering; define another one"
    for node, where in source.index.calls:
        called = source.called[node]
        made_by_hand = called in ("types.CodeType", "types.FunctionType")
        copied = isinstance(node.func, ast.Attribute) and node.func.attr == "replace"
        if made_by_hand or (copied and _holds(node.func.value, Site(node, where), _CODE_PARTS)):
            yield node.lineno, "makes a function from a code object: refused as hidden code; write it as source"


def _interpreter_pointer(source: Source) -> Hits:
    for node, where in source.index.attributes:
        if dotted(node, where.scope) in ("ctypes.pythonapi", "ctypes.py_object"):
            yield node.lineno, f"`ctypes.{node.attr}` reaches into the interpreter: refused as tampering"
    for node, _ in source.index.imports:
        for name in [alias.name for alias in node.names if alias.name in ("pythonapi", "py_object")]:
            yield node.lineno, f"`{name}` of ctypes reaches into the interpreter: refused as tampering"
    for node, _ in source.index.calls:
        called = source.called[node] or ""
        takes_address = called in _POINTER_CALLS or called.endswith(".from_address") or _is_from_address(node)
        if takes_address and any(_takes_id(argument) for argument in node.args):
            yield node.lineno, "pokes at a Python object through its address: refused as tampering"


def _is_from_address(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "from_address"


def _takes_id(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "id"
        for inner in ast.walk(node)
    )


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("mutated-globals", True, _mutated_globals)
    yield Rule("globals-write", False, _globals_write)
    yield Rule("frame-access", False, _frame_access)
    yield Rule("frame-write", True, _frame_write)
    yield Rule("heap-search", True, _heap_search)
    yield Rule("code-object", True, _code_object)
    yield Rule("interpreter-pointer", True, _interpreter_pointer)
