"""What a file may do when it is imported: define, and compute values. Everything else is a side effect.

In the merged file the import of every variant runs before any shape does, so one that compiles, allocates or
fails at import takes all shapes with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from harness.assembly.known_calls import CONTAINER_METHODS, FRESH_CALLS, LIBRARY_METHODS, TEXT_METHODS, is_constant_call
from harness.assembly.source_file import SourceFile, root_name
from harness.errors import CannotMerge


def refuse_import_effects(file: SourceFile) -> None:
    """Raises CannotMerge for the first module-level statement that does more than define names and values."""
    rule = _ImportRule(file)
    for node in file.tree.body:
        rule.statement(node)


class _ImportRule:
    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._own = {
            node.name: node
            for node in file.tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        self._asked: set[str] = set()

    def refuse(self, node: ast.AST, what: str) -> None:
        raise CannotMerge(
            self._file.path,
            node.lineno,
            f"{what} at import is a side effect that every shape would pay for; do it in a function, on the first call",
        )

    def statements(self, nodes: Iterable[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [default for default in [*node.args.defaults, *node.args.kw_defaults] if default is not None]
            self.expressions([*_decorator_arguments(node), *defaults])
        elif isinstance(node, ast.ClassDef):
            self.expressions([*_decorator_arguments(node), *node.bases, *(keyword.value for keyword in node.keywords)])
            self.statements(node.body)
        elif isinstance(node, ast.If):
            if ast.unparse(node.test).startswith("__name__ =="):
                return
            self.expressions([node.test])
            self.statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            self.statements([*node.body, *node.orelse, *node.finalbody])
            for handler in node.handlers:
                self.statements(handler.body)
        elif isinstance(node, ast.For):
            self.expressions([node.iter])
            self.statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Assert | ast.Delete):
            self.expressions(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        elif type(node).__name__ not in ("Import", "ImportFrom", "Pass", "Global", "TypeAlias"):
            self.refuse(node, f"`{ast.unparse(node).split(chr(10))[0]}`")

    def expressions(self, nodes: Iterable[ast.expr]) -> None:
        waiting: list[ast.AST] = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Lambda):
                continue
            if isinstance(node, ast.Call) and not self.allows(node):
                self.refuse(node, f"the call `{_short(node)}`")
            if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
                self.refuse(node, f"`{_short(node)}`")
            waiting += ast.iter_child_nodes(node)

    def allows(self, call: ast.Call) -> bool:
        """Whether a call made at import computes a value and does nothing else."""
        function = call.func
        if isinstance(function, ast.Call):  # a decorator with arguments, applied: its own call is looked at too
            return self.allows(function)
        if isinstance(function, ast.Name) and function.id in self._own:
            return self.own_is_pure(function.id)
        full = self._file.dotted(function)
        if is_constant_call(full) or full in FRESH_CALLS:
            return True
        if not isinstance(function, ast.Attribute):
            return False
        if function.attr in TEXT_METHODS:
            return root_name(function) not in self._file.dotted_names or "version" in ast.unparse(function.value)
        if function.attr in CONTAINER_METHODS | LIBRARY_METHODS:
            root = root_name(function)
            return root is None or root not in self._file.dotted_names
        return False

    def own_is_pure(self, name: str) -> bool:
        """Whether a class or function of this file only computes when it is called."""
        if name in self._asked:
            return True
        self._asked.add(name)
        definition = self._own[name]
        if isinstance(definition, ast.ClassDef):
            bodies = [node for node in definition.body if getattr(node, "name", "") in _CONSTRUCTORS]
        else:
            bodies = [definition]
        return all(self._body_is_pure(body) for body in bodies)

    def _body_is_pure(self, function: ast.AST) -> bool:
        effects = (ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.With, ast.Await, ast.Yield, ast.YieldFrom)
        nodes = list(ast.walk(function))
        if any(isinstance(node, effects) for node in nodes):
            return False
        calls = (node for node in nodes if isinstance(node, ast.Call) and node not in function.decorator_list)
        return all(self.allows(call) for call in calls)


_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")


def _decorator_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.expr]:
    """What a definition's decorators are given: to decorate is to define, whatever the decorator."""
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return [value for call in calls for value in [*call.args, *(keyword.value for keyword in call.keywords)]]


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
