"""One walk over the syntax tree that sorts its nodes by kind and notes where each of them runs."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.lint.names import Imported, Scope

Function = ast.FunctionDef | ast.AsyncFunctionDef
ENTRY = "custom_kernel"
_LAMBDA = "<lambda>"
# Fields without nodes of interest: load or store, operators, and the like.
_PLAIN_FIELDS = frozenset({"ctx", "op", "ops", "kind", "type_comment", "conversion", "id", "attr"})


class Where(NamedTuple):
    """Where a node runs.

    owner: the top-level function, or `Class.method`, whose body holds it; None for module level.
    in_main: inside `if __name__ == "__main__":`. nested: inside a function within the owner.
    """

    scope: Scope
    owner: str | None = None
    in_main: bool = False
    nested: bool = False


class Site(NamedTuple):
    """A node and where it runs."""

    node: ast.AST
    where: Where


@dataclass
class Index:
    """The nodes that rules look at, by kind, and what calls what by name.

    stored: attributes and subscripts that are assigned or deleted. scopes: of each module, class and function.
    bound: name nodes whose assigned expression is known. loads, called: for each owner the names it
    reads and the names it calls; None is the module level outside the main block.
    """

    module: Scope
    calls: list[Site] = field(default_factory=list)
    attributes: list[Site] = field(default_factory=list)
    stored: list[Site] = field(default_factory=list)
    imports: list[Site] = field(default_factory=list)
    strings: list[Site] = field(default_factory=list)
    concatenations: list[Site] = field(default_factory=list)
    raised: list[Site] = field(default_factory=list)
    functions: dict[str, list[Function]] = field(default_factory=lambda: defaultdict(list))
    classes: dict[str, list[Site]] = field(default_factory=lambda: defaultdict(list))
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    bound: set[ast.AST] = field(default_factory=set)
    loads: dict[str | None, set[str]] = field(default_factory=lambda: defaultdict(set))
    called: dict[str | None, set[str]] = field(default_factory=lambda: defaultdict(set))
    live: frozenset[str] = frozenset()
    at_import: frozenset[str] = frozenset()

    def is_live(self, where: Where) -> bool:
        """Whether the code can run under the evaluator: not only from the main block."""
        return not where.in_main and (where.owner is None or where.owner in self.live)

    def runs_at_import(self, where: Where) -> bool:
        """Whether the code runs when the file is imported."""
        if where.in_main or where.nested:
            return False
        return where.owner is None or where.owner in self.at_import


def build_index(tree: ast.Module) -> Index:
    """Walk `tree` once. Written with its own stack, so that no nesting is too deep for it."""
    index = Index(Scope(tree, None))
    index.scopes[tree] = index.module
    stack: list[tuple[ast.AST, Where]] = [(node, Where(index.module)) for node in reversed(tree.body)]
    while stack:
        node, where = stack.pop()
        children = _visit(index, node, where)
        stack.extend(reversed(children))
    index.live = _reachable(index, index.loads, {*index.loads[None], ENTRY, _LAMBDA})
    index.at_import = _reachable(index, index.called, index.called[None])
    return index


def _visit(index: Index, node: ast.AST, where: Where) -> list[tuple[ast.AST, Where]]:
    """Note a node, and give its children with where they run."""
    kind = type(node)
    if kind is ast.Name:
        _note_name(index, node, where)
        return []
    if kind is ast.Constant:
        if isinstance(node.value, str):
            index.strings.append(Site(node, where))
        return []
    if kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
        return _visit_function(index, node, where)
    if kind is ast.ClassDef:
        return _visit_class(index, node, where)
    if kind is ast.If and where.owner is None and is_main_guard(node.test):
        main = where._replace(in_main=True)
        return [(inner, main) for inner in node.body] + [(inner, where) for inner in node.orelse]
    if kind is ast.Expr and isinstance(node.value, ast.Constant):
        return []  # a docstring, or a string left as a remark
    if kind is ast.Compare and isinstance(node.left, ast.Name) and node.left.id == "__name__":
        return []
    note = _NOTES.get(kind)
    if note is not None:
        note(index, node, where)
    return _children(node, where)


def _children(node: ast.AST, where: Where) -> list[tuple[ast.AST, Where]]:
    children: list[tuple[ast.AST, Where]] = []
    for name in node._fields:
        if name in _PLAIN_FIELDS:
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            children.append((value, where))
        elif isinstance(value, list):
            children += [(inner, where) for inner in value if isinstance(inner, ast.AST)]
    return children


def _note_call(index: Index, node: ast.Call, where: Where) -> None:
    index.calls.append(Site(node, where))
    if isinstance(node.func, ast.Name) and not where.in_main:
        index.called[where.owner].add(node.func.id)


def _note_part(index: Index, node: ast.Attribute | ast.Subscript, where: Where) -> None:
    if not isinstance(node.ctx, ast.Load):
        index.stored.append(Site(node, where))
    elif isinstance(node, ast.Attribute):
        index.attributes.append(Site(node, where))


def _note_assignment(index: Index, node: ast.Assign | ast.AnnAssign | ast.NamedExpr, where: Where) -> None:
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Name):
            where.scope.bind(target.id, node.value)
            index.bound.add(target)  # so that its own visit does not call it unknown


def _note_shared(index: Index, node: ast.Global | ast.Nonlocal, where: Where) -> None:
    owner = index.module if isinstance(node, ast.Global) else where.scope.parent or index.module
    where.scope.shared.update(dict.fromkeys(node.names, owner))


def _note_handler(index: Index, node: ast.ExceptHandler, where: Where) -> None:
    if node.name:
        where.scope.bind(node.name, None)


def _note_import(index: Index, node: ast.Import | ast.ImportFrom, where: Where) -> None:
    index.imports.append(Site(node, where))
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            where.scope.bind(alias.asname or alias.name, Imported(f"{node.module or ''}.{alias.name}"))
        else:
            first = alias.name.partition(".")[0]
            where.scope.bind(alias.asname or first, Imported(alias.name if alias.asname else first))


def _note_concatenation(index: Index, node: ast.BinOp | ast.JoinedStr, where: Where) -> None:
    index.concatenations.append(Site(node, where))


def _note_raise(index: Index, node: ast.Raise, where: Where) -> None:
    index.raised.append(Site(node, where))


_NOTES = {
    ast.Call: _note_call,
    ast.Attribute: _note_part,
    ast.Subscript: _note_part,
    ast.Assign: _note_assignment,
    ast.AnnAssign: _note_assignment,
    ast.NamedExpr: _note_assignment,
    ast.Global: _note_shared,
    ast.Nonlocal: _note_shared,
    ast.ExceptHandler: _note_handler,
    ast.Import: _note_import,
    ast.ImportFrom: _note_import,
    ast.BinOp: _note_concatenation,
    ast.JoinedStr: _note_concatenation,
    ast.Raise: _note_raise,
}


def _note_name(index: Index, node: ast.Name, where: Where) -> None:
    if isinstance(node.ctx, ast.Load):
        if not where.in_main:
            index.loads[where.owner].add(node.id)
    elif node not in index.bound:
        where.scope.bind(node.id, None)  # a loop variable, a part of a tuple, the target of `with` …


def _visit_function(index: Index, node: Function | ast.Lambda, where: Where) -> list[tuple[ast.AST, Where]]:
    arguments = node.args
    outside: list[ast.AST] = [*arguments.defaults, *(default for default in arguments.kw_defaults if default)]
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    scope = Scope(node, where.scope)
    index.scopes[node] = scope
    for argument in named:
        scope.bind(argument.arg, None)
    if isinstance(node, ast.Lambda):
        inside = Where(scope, where.owner or _LAMBDA, where.in_main, True)
        return [(child, where) for child in outside] + [(node.body, inside)]
    where.scope.bind(node.name, None)
    owner, nested = where.owner, True
    if where.owner is None:
        within = where.scope.node
        owner, nested = (f"{within.name}.{node.name}" if isinstance(within, ast.ClassDef) else node.name), False
        index.functions[owner].append(node)
    inside = Where(scope, owner, where.in_main, nested)
    outside += node.decorator_list
    return [(child, where) for child in outside] + [(child, inside) for child in node.body]


def _visit_class(index: Index, node: ast.ClassDef, where: Where) -> list[tuple[ast.AST, Where]]:
    where.scope.bind(node.name, None)
    index.classes[node.name].append(Site(node, where))
    inside = where._replace(scope=Scope(node, where.scope))
    index.scopes[node] = inside.scope
    outside: list[ast.AST] = [*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list]
    return [(child, where) for child in outside] + [(child, inside) for child in node.body]


def is_main_guard(test: ast.expr) -> bool:
    """Whether a condition is `__name__ == "__main__"`, perhaps with more after `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(is_main_guard(value) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = {ast.unparse(test.left), ast.unparse(test.comparators[0])}
    return "__name__" in sides and bool(sides & {"'__main__'", '"__main__"'})


def _reachable(index: Index, edges: dict[str | None, set[str]], start: set[str]) -> frozenset[str]:
    """The owners that can run when the names of `start` are used; a class stands for its methods."""
    whole_class = edges is index.loads
    methods: dict[str, list[str]] = defaultdict(list)
    for owner in index.functions:
        name, _, method = owner.partition(".")
        if method and (whole_class or method in ("__init__", "__new__")):
            methods[name].append(owner)
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += methods.get(name, [])
        waiting += edges.get(name, ())
    return frozenset(seen)
