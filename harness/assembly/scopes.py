"""Where a statement uses which name, and whether it means the module's: Python's own scope rules over `ast`.

`ast` and not LibCST's metadata: all files of a merge take 30 ms here and one second there, and the merge has
half a second for everything.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Reach = Literal["module", "class", "local"]


class Occurrence(NamedTuple):
    """One identifier in the source that a renaming may have to change.

    order: sorts the occurrences of a statement as they stand in the source.
    reach: `module` for the module's own name, `local` for a function's, `class` for one that a class body both
    binds and reads, where only running it tells which is meant.
    stores: it binds or deletes the name. deferred: it runs when a function is called, not at import.
    """

    name: str
    order: tuple[int, int, int]
    line: int
    reach: Reach
    stores: bool
    deferred: bool


def occurrences(statement: ast.stmt) -> tuple[Occurrence, ...]:
    """Every identifier of a module-level statement in source order: attributes and keywords are none."""
    walk = _Walk()
    walk.visit(statement)
    return tuple(sorted(walk.found, key=lambda found: found.order))


@dataclass
class _Scope:
    kind: Literal["function", "class", "type parameters"]
    bound: set[str]
    declared_global: set[str]


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Walk:
    def __init__(self) -> None:
        self.found: list[Occurrence] = []
        self._scopes: list[_Scope] = []
        self._depth = 0
        # Inside an f-string or a string annotation: the string's own position, for want of a right one inside.
        self._string: tuple[int, int] | None = None
        self._in_annotation = False

    def visit(self, node: ast.AST) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
        else:
            self.visit_all(children(node))

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def add(self, name: str, position: tuple[int, int], *, stores: bool, index: int = 0) -> None:
        if self._string is not None:
            position, index = self._string, len(self.found)
        self.found.append(
            Occurrence(name, (*position, index), position[0], self._reach(name, stores), stores, self._depth > 0)
        )

    def _reach(self, name: str, stores: bool) -> Reach:
        innermost = True
        for scope in reversed(self._scopes):
            if name in scope.declared_global:
                return "module"
            if scope.kind == "class":
                if innermost and name in scope.bound:
                    return "local" if stores else "class"
            elif name in scope.bound:
                return "local"
            # A class body's names are seen from the body itself only; type parameters do not hide them.
            innermost = innermost and scope.kind == "type parameters"
        return "module"

    def visit_in_scope(
        self,
        kind: Literal["function", "class"],
        nodes: Iterable[ast.AST | None],
        bound: Iterable[str],
        body: Iterable[ast.AST] = (),
    ) -> None:
        """Visit `nodes` in a scope that binds `bound` and what the statements of `body` bind."""
        names, declared_global, nonlocals = _bindings(body)
        names.update(bound)
        self._scopes.append(_Scope(kind, names - declared_global - nonlocals, declared_global))
        self.visit_all(nodes)
        self._scopes.pop()

    def visit_in_string(self, string: ast.expr, nodes: Iterable[ast.AST]) -> None:
        before = self._string
        self._string = before or (string.lineno, string.col_offset)
        self.visit_all(nodes)
        self._string = before

    def visit_as_annotation(self, nodes: Iterable[ast.AST | None], active: bool = True) -> None:
        before, self._in_annotation = self._in_annotation, active
        self.visit_all(nodes)
        self._in_annotation = before

    # -- names ------------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> None:
        self.add(node.id, _start(node), stores=not isinstance(node.ctx, ast.Load))

    def declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        for index, name in enumerate(node.names):
            self.add(name, _start(node), stores=False, index=index)

    def alias(self, node: ast.alias) -> None:
        if node.name != "*":
            self.add(bound_by_import(node), _start(node), stores=True)

    def handler(self, node: ast.ExceptHandler) -> None:
        self.visit_all([node.type])
        if node.name is not None:
            self.add(node.name, _end(node.type) if node.type else _start(node), stores=True)
        self.visit_all(node.body)

    def pattern(self, node: ast.AST) -> None:
        self.visit_all(children(node))
        name = getattr(node, "rest", None) or getattr(node, "name", None)
        if name is not None:
            self.add(name, _end(node), stores=True)

    def type_parameter(self, node: ast.AST) -> None:
        self.add(node.name, _start(node), stores=True)
        self.visit_all(children(node))

    # -- scopes -----------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all(node.decorator_list)
        self.add(node.name, _start(node), stores=True)
        self.push_type_parameters(node)
        parameters = _parameters(node.args)
        self.visit_all(_defaults(node.args))
        self.visit_as_annotation([*(parameter.annotation for parameter in parameters), node.returns])
        self.call_scope(parameters, node.body)
        self._scopes.pop()

    def lambda_(self, node: ast.Lambda) -> None:
        self.visit_all(_defaults(node.args))
        self.call_scope(_parameters(node.args), [node.body])

    def call_scope(self, parameters: list[ast.arg], body: list[ast.AST]) -> None:
        self._depth += 1
        self.visit_in_scope("function", [*parameters, *body], [parameter.arg for parameter in parameters], body)
        self._depth -= 1

    def parameter(self, node: ast.arg) -> None:
        # Its annotation belongs to the scope around and was visited there.
        self.add(node.arg, _start(node), stores=True)

    def class_(self, node: ast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        self.add(node.name, _start(node), stores=True)
        self.push_type_parameters(node)
        self.visit_all([*node.bases, *node.keywords])
        self.visit_in_scope("class", node.body, (), node.body)
        self._scopes.pop()

    def push_type_parameters(self, node: ast.AST) -> None:
        parameters = getattr(node, "type_params", [])
        self._scopes.append(_Scope("type parameters", {parameter.name for parameter in parameters}, set()))
        self.visit_all(parameters)

    def type_alias(self, node: ast.AST) -> None:
        self.visit(node.name)
        self.push_type_parameters(node)
        self.visit(node.value)
        self._scopes.pop()

    def comprehension(self, node: ast.AST) -> None:
        # The first iterable is evaluated outside of the comprehension's own scope.
        self.visit(node.generators[0].iter)
        inside: list[ast.AST] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for index, generator in enumerate(node.generators):
            inside += [generator.target, *([generator.iter] if index else []), *generator.ifs]
        targets, _, _ = _bindings(generator.target for generator in node.generators)
        self.visit_in_scope("function", inside, targets)

    # -- strings and annotations ------------------------------------------------------------------------------

    def f_string(self, node: ast.JoinedStr) -> None:
        self.visit_in_string(node, node.values)

    def annotated_assignment(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self.visit_as_annotation([node.annotation])
        self.visit_all([node.value])

    def subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        self.visit_as_annotation([node.slice], self._in_annotation and not _is_literal_type(node.value))

    def constant(self, node: ast.Constant) -> None:
        if self._in_annotation and isinstance(node.value, str) and (tree := annotation_tree(node.value)) is not None:
            self.visit_in_string(node, [tree])


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below `node`, but for those without content such as `Load` and `Add`.

    As `ast.iter_child_nodes`, three times as fast.
    """
    found = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST) and item._fields]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


def nodes_below(node: ast.AST) -> list[ast.AST]:
    """`node` and all nodes below it, as `ast.walk` gives them; see `children`."""
    found = [node]
    for inner in found:
        found += children(inner)
    return found


def bound_by_import(alias: ast.alias) -> str:
    """The name that one clause of an import binds: `a` for `import a.b`."""
    return alias.asname or alias.name.partition(".")[0]


def annotation_tree(text: str) -> ast.expr | None:
    """The expression that a string annotation holds, or None for text that is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _is_literal_type(node: ast.expr) -> bool:
    return getattr(node, "id", None) == "Literal" or getattr(node, "attr", None) == "Literal"


def _start(node: ast.AST) -> tuple[int, int]:
    return (node.lineno, node.col_offset)


def _end(node: ast.AST) -> tuple[int, int]:
    # One less: before whatever follows, after all that is inside.
    return (node.end_lineno, node.end_col_offset - 1)


def _parameters(args: ast.arguments) -> list[ast.arg]:
    listed = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [parameter for parameter in listed if parameter is not None]


def _defaults(args: ast.arguments) -> list[ast.expr]:
    return [default for default in [*args.defaults, *args.kw_defaults] if default is not None]


def _bindings(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str], set[str]]:
    """What a scope with these statements binds, declares global and declares nonlocal; inner scopes left out."""
    bound: set[str] = set()
    declared: dict[type, set[str]] = {ast.Global: set(), ast.Nonlocal: set()}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
            waiting += [*node.decorator_list, *_defaults(node.args)]
        elif isinstance(node, ast.ClassDef):
            bound.add(node.name)
            waiting += [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Lambda):
            waiting += _defaults(node.args)
        elif isinstance(node, _COMPREHENSIONS):
            # A walrus inside binds in the scope around; the comprehension's own targets do not.
            inner = (inside for inside in nodes_below(node) if isinstance(inside, ast.NamedExpr))
            bound.update(inside.target.id for inside in inner)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            declared[type(node)].update(node.names)
        elif isinstance(node, ast.alias):
            bound.add(bound_by_import(node))
        elif type(node).__name__ == "TypeAlias":
            bound.add(node.name.id)
        else:
            name = getattr(node, "rest", None) or getattr(node, "name", None)
            if isinstance(name, str):
                bound.add(name)
            waiting += children(node)
    return bound, declared[ast.Global], declared[ast.Nonlocal]


_HANDLERS: dict[type, Callable[[_Walk, ast.AST], None]] = {
    ast.Name: _Walk.name,
    ast.Constant: _Walk.constant,
    ast.Global: _Walk.declaration,
    ast.Nonlocal: _Walk.declaration,
    ast.alias: _Walk.alias,
    ast.arg: _Walk.parameter,
    ast.ExceptHandler: _Walk.handler,
    ast.MatchAs: _Walk.pattern,
    ast.MatchStar: _Walk.pattern,
    ast.MatchMapping: _Walk.pattern,
    ast.FunctionDef: _Walk.function,
    ast.AsyncFunctionDef: _Walk.function,
    ast.Lambda: _Walk.lambda_,
    ast.ClassDef: _Walk.class_,
    ast.JoinedStr: _Walk.f_string,
    ast.AnnAssign: _Walk.annotated_assignment,
    ast.Subscript: _Walk.subscript,
    **dict.fromkeys(_COMPREHENSIONS, _Walk.comprehension),
}
# Syntax of Python 3.12 and later.
for _kind, _handler in (
    ("TypeAlias", _Walk.type_alias),
    ("TypeVar", _Walk.type_parameter),
    ("ParamSpec", _Walk.type_parameter),
    ("TypeVarTuple", _Walk.type_parameter),
):
    if hasattr(ast, _kind):
        _HANDLERS[getattr(ast, _kind)] = _handler
