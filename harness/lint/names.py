"""What a name in the source stands for: imports, aliases and assembled strings, without running anything."""

from __future__ import annotations

import ast

# Long enough for `getattr(getattr(torch, "cuda"), "Ev" + "ent")` through a few aliases; short enough to be instant.
_MAX_HOPS = 12


class Imported(str):
    """The dotted name that an import statement binds."""

    __slots__ = ()


Binding = ast.expr | Imported | None


class Scope:
    """The names that one module, class or function body binds.

    bindings: for each name what it was bound to, in order: an import, an expression, or None for anything else
    (a parameter, a loop variable, a definition). shared: names declared `global` or `nonlocal`, with their scope.
    """

    __slots__ = ("bindings", "is_class", "node", "parent", "shared")

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.is_class = isinstance(node, ast.ClassDef)
        self.bindings: dict[str, list[Binding]] = {}
        self.shared: dict[str, Scope] = {}

    def bind(self, name: str, value: Binding) -> None:
        """Note one binding of `name`; a shared name is noted where it belongs."""
        owner = self.shared.get(name, self)
        owner.bindings.setdefault(name, []).append(value)

    def owner_of(self, name: str) -> Scope | None:
        """The scope that binds `name` as seen from here, or None for a builtin."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.shared:
                return scope.shared[name]
            if name in scope.bindings and (scope is self or not scope.is_class):
                return scope
            scope = scope.parent
        return None


def dotted(node: ast.AST, scope: Scope, hops: int = 0) -> str | None:
    """The dotted name that an expression means (`torch.cuda.Event`), or None where that is not certain.

    Sees through import aliases, names assigned once, `getattr` with a foldable name, `importlib.import_module`,
    `__import__`, `sys.modules[...]` and `vars(x)[...]`.
    """
    if hops > _MAX_HOPS:
        return None
    if isinstance(node, ast.Name):
        return _dotted_name(node.id, scope, hops)
    if isinstance(node, ast.Attribute):
        return _joined(dotted(node.value, scope, hops + 1), node.attr)
    if isinstance(node, ast.Call):
        return _dotted_call(node, scope, hops + 1)
    if isinstance(node, ast.Subscript):
        return _dotted_item(node, scope, hops + 1)
    return None


def _joined(base: str | None, attribute: str | None) -> str | None:
    return f"{base}.{attribute}" if base and attribute else None


def _dotted_name(name: str, scope: Scope, hops: int) -> str | None:
    owner = scope.owner_of(name)
    if owner is None:
        return name
    bindings = owner.bindings[name]
    for binding in bindings:
        if isinstance(binding, Imported):
            return binding
    if len(bindings) == 1 and isinstance(bindings[0], ast.expr):
        return dotted(bindings[0], owner, hops + 1)
    return None


def _dotted_call(node: ast.Call, scope: Scope, hops: int) -> str | None:
    if not node.args:
        return None
    called = dotted(node.func, scope, hops)
    if called in ("getattr", "builtins.getattr") and len(node.args) >= 2:
        return _joined(dotted(node.args[0], scope, hops), folded(node.args[1], scope, hops))
    if called in ("importlib.import_module", "__import__", "builtins.__import__"):
        return folded(node.args[0], scope, hops)
    return None


def _dotted_item(node: ast.Subscript, scope: Scope, hops: int) -> str | None:
    key = folded(node.slice, scope, hops)
    if key is None:
        return None
    namespace = namespace_of(node.value, scope, hops)
    if namespace is not None:
        return f"{namespace}.{key}"
    return key if dotted(node.value, scope, hops) == "sys.modules" else None


def namespace_of(node: ast.AST, scope: Scope, hops: int = 0) -> str | None:
    """The dotted name of x where an expression is the dictionary of x: `vars(x)` or `x.__dict__`."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return dotted(node.value, scope, hops + 1)
    if isinstance(node, ast.Call) and len(node.args) == 1 and dotted(node.func, scope, hops + 1) == "vars":
        return dotted(node.args[0], scope, hops + 1)
    return None


def folded(node: ast.AST | None, scope: Scope, hops: int = 0) -> str | None:
    """The text of a string put together at run time from constants, or None where it is not one.

    Sees `+`, f-strings of constants, `"".join([...])`, `bytes.decode()` and names assigned once.
    """
    if node is None or hops > _MAX_HOPS:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _concatenated(_summands(node), scope, hops + 1)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return _concatenated(parts, scope, hops + 1)
    if isinstance(node, ast.Name):
        owner = scope.owner_of(node.id)
        bindings = owner.bindings[node.id] if owner else []
        if owner and len(bindings) == 1 and isinstance(bindings[0], ast.expr):
            return folded(bindings[0], owner, hops + 1)
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _folded_method(node.func, node.args, scope, hops + 1)
    return None


def _summands(node: ast.BinOp) -> list[ast.expr]:
    parts: list[ast.expr] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]


def _concatenated(parts: list[ast.expr], scope: Scope, hops: int, between: str = "") -> str | None:
    texts: list[str] = []
    for part in parts:
        text = folded(part, scope, hops)
        if text is None:
            return None
        texts.append(text)
    return between.join(texts)


def _folded_method(method: ast.Attribute, arguments: list[ast.expr], scope: Scope, hops: int) -> str | None:
    if method.attr == "join" and len(arguments) == 1 and isinstance(arguments[0], ast.List | ast.Tuple):
        between = folded(method.value, scope, hops)
        return None if between is None else _concatenated(arguments[0].elts, scope, hops, between)
    if method.attr == "decode" and isinstance(method.value, ast.Constant) and isinstance(method.value.value, bytes):
        return method.value.value.decode("utf-8", "replace")
    return None
