"""Evaluates expressions for harness/lint/flow.py: which values they give, and which they may write into."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from harness.lint import tensor_calls
from harness.lint.entry import class_of
from harness.lint.names import Imported, dotted
from harness.lint.values import FRESH, Input, Kept, Pack, State, Values, leaves, part

if TYPE_CHECKING:
    from harness.lint.flow import Flow, Frame


class Expressions:
    """The expressions of one source."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.index = flow.index

    def condition(self, node: ast.expr, state: State, frame: Frame) -> None:
        """Evaluate a condition: what it calls only compares, so nothing counts as written."""
        before = state.may_write, state.must_write
        self.value(node, state, frame)
        state.may_write, state.must_write = before

    def value(self, node: ast.expr, state: State, frame: Frame) -> Values:
        """The values an expression may give; `state` notes what it writes and stores."""
        self.flow.step()
        if isinstance(node, ast.Constant):
            return FRESH
        if isinstance(node, ast.Name):
            return self._name(node.id, state, frame)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, state, frame)
        if isinstance(node, ast.Subscript):
            self.condition(node.slice, state, frame)
            return self._seen(part(self.value(node.value, state, frame), self.key_of(node)), state)
        if isinstance(node, ast.Call):
            return self._call(node, state, frame)
        if isinstance(node, ast.Starred | ast.Await):
            return self.value(node.value, state, frame)
        if isinstance(node, ast.NamedExpr):
            values = self.value(node.value, state, frame)
            self.flow.assign(node.target, values, state, frame)
            return values
        if isinstance(node, ast.Lambda):
            return FRESH
        return self._several(node, state, frame)

    def _several(self, node: ast.expr, state: State, frame: Frame) -> Values:
        if isinstance(node, ast.Tuple | ast.List):
            return self._pack([(str(n), item) for n, item in enumerate(node.elts)], state, frame)
        if isinstance(node, ast.Dict):
            keys = [str(key.value) if isinstance(key, ast.Constant) else f"?{n}" for n, key in enumerate(node.keys)]
            return self._pack(list(zip(keys, node.values, strict=True)), state, frame)
        if isinstance(node, ast.IfExp):
            self.condition(node.test, state, frame)
            return self.value(node.body, state, frame) | self.value(node.orelse, state, frame)
        if isinstance(node, ast.BoolOp):
            return FRESH.union(*[self.value(inner, state, frame) for inner in node.values])
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for loop in node.generators:
                self.flow.assign(loop.target, part(self.value(loop.iter, state, frame), None), state, frame)
            element = node.value if isinstance(node, ast.DictComp) else node.elt
            return self.value(element, state, frame)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self.value(inner, state, frame)
        return FRESH

    def _pack(self, items: list[tuple[str, ast.expr]], state: State, frame: Frame) -> Values:
        packed = tuple((key, self.value(item, state, frame)) for key, item in items)
        return frozenset({Pack(packed)}) if any(values for _, values in packed) else FRESH

    def key_of(self, node: ast.Attribute | ast.Subscript) -> str | None:
        """The constant attribute or index, or None for a slice or a computed one."""
        if isinstance(node, ast.Attribute):
            return node.attr
        index = node.slice
        if isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant):
            return f"-{index.operand.value}"
        return str(index.value) if isinstance(index, ast.Constant) and isinstance(index.value, int | str) else None

    def _name(self, name: str, state: State, frame: Frame) -> Values:
        if name in state.names:
            return state.names[name]
        scope = self.index.scopes[frame.function]
        owner = scope.owner_of(name)
        if owner is None or owner is scope:
            return FRESH
        if any(isinstance(binding, Imported) for binding in owner.bindings.get(name, [])):
            return FRESH
        return state.kept(Kept(name))

    def _attribute(self, node: ast.Attribute, state: State, frame: Frame) -> Values:
        values = self.value(node.value, state, frame)
        if node.attr in tensor_calls.SAME_ATTRIBUTES:
            return values
        if node.attr in tensor_calls.DESCRIBING_ATTRIBUTES:
            return FRESH
        return self._seen(part(values, node.attr), state)

    def _seen(self, values: Values, state: State) -> Values:
        """Kept places replaced by what this call stored there."""
        found = [state.kept(value) if isinstance(value, Kept) else frozenset({value}) for value in values]
        return FRESH.union(*found)

    def _call(self, node: ast.Call, state: State, frame: Frame) -> Values:
        plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        arguments = [self.value(argument, state, frame) for argument in plain]
        keywords = {k.arg: self.value(k.value, state, frame) for k in node.keywords if k.arg is not None}
        spread = [argument.value for argument in node.args if isinstance(argument, ast.Starred)]
        spread += [k.value for k in node.keywords if k.arg is None]
        rest = FRESH.union(*[self.value(inner, state, frame) for inner in spread])
        local = self._local_function(node.func, frame)
        if local is not None:
            function, receiver = local
            if receiver is not None:
                arguments = [self.value(receiver, state, frame), *arguments]
            enclosing = state.names if getattr(function, "name", None) in frame.functions else None
            return self.flow.call(function, arguments, keywords, rest, state, enclosing)
        given = [*arguments, *keywords.values(), rest]
        called = dotted(node.func, self.index.scopes[frame.function])
        if called is not None and not self._is_kept_name(node.func, state, frame):
            return self._library_call(called, arguments, keywords, given, state)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, arguments, given, state, frame)
        for values in given:
            state.write(values)
        self._write_roots(self.value(node.func, state, frame), state)
        return FRESH

    def _is_kept_name(self, func: ast.expr, state: State, frame: Frame) -> bool:
        """Whether a dotted name starts with a variable of the file rather than a module or builtin."""
        base = func
        while isinstance(base, ast.Attribute):
            base = base.value
        return isinstance(base, ast.Name) and bool(self._name(base.id, state, frame))

    def _local_function(self, func: ast.expr, frame: Frame) -> tuple[ast.FunctionDef, ast.expr | None] | None:
        """A function or method of this file that is called by its name, and the receiver of a method."""
        functions = self.index.functions
        if isinstance(func, ast.Name):
            found = frame.functions.get(func.id) or (functions.get(func.id) or [None])[-1]
            return (found, None) if found is not None else None
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            owner = class_of(self.flow.source, func.value.id) or self._class_of_self(func.value.id, frame)
            method = functions.get(f"{owner}.{func.attr}")
            return (method[-1], func.value) if method else None
        return None

    def _class_of_self(self, name: str, frame: Frame) -> str | None:
        arguments = frame.function.args.args
        if not arguments or arguments[0].arg != name:
            return None
        for owner, found in self.index.functions.items():
            if "." in owner and frame.function in found:
                return owner.partition(".")[0]
        return None

    def _library_call(
        self, called: str, arguments: list[Values], keywords: dict[str, Values], given: list[Values], state: State
    ) -> Values:
        if called in tensor_calls.SAME_FUNCTIONS:
            return arguments[0] if arguments else FRESH
        if called == "getattr" and arguments:
            return part(arguments[0], None)
        if tensor_calls.only_reads(called):
            state.write(keywords.get("out", FRESH))
            return keywords.get("out", FRESH)
        for values in given:
            state.write(values)
        return FRESH

    def _method(
        self, node: ast.Call, arguments: list[Values], given: list[Values], state: State, frame: Frame
    ) -> Values:
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        receiver = self.value(node.func.value, state, frame)
        if name in tensor_calls.STORING_METHODS:
            for base in leaves(receiver):
                if isinstance(base, Kept):
                    self.flow.stores.setdefault(base.root, node.lineno)
        if name in tensor_calls.SAME_METHODS:
            default = arguments[1] if name in ("get", "setdefault", "pop") and len(arguments) > 1 else FRESH
            return receiver | default
        if name in tensor_calls.POINTER_METHODS:
            state.write(receiver)
            return FRESH
        if name in tensor_calls.READING_METHODS or name in tensor_calls.STORING_METHODS:
            return FRESH
        for values in given:
            state.write(values)
        if name.endswith("_"):
            state.write(receiver)
            return receiver
        self._write_roots(receiver, state)
        return FRESH

    def _write_roots(self, values: Values, state: State) -> None:
        """Calling something kept (a captured graph, a runner) may write into all that is kept with it."""
        state.write(frozenset(Kept(value.root) for value in leaves(values) if isinstance(value, Kept)))
        state.may_write |= frozenset(value for value in leaves(values) if isinstance(value, Input))
