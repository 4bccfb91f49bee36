"""Follows values through `custom_kernel` and the functions it calls, statement by statement.

Each statement is run once on what is known of the values (harness/lint/values.py); branches are run apart and joined.
It errs towards silence: what it does not know counts as made in this call, and what an unknown function gets counts
as written by it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from harness.lint.entry import Callable, Entry, is_cached
from harness.lint.index import Function
from harness.lint.source import Source
from harness.lint.values import FRESH, Input, Kept, State, Values, joined, leaves, part

# Steps before a file is let off: far beyond any submission, and under 0.1 s.
_MAX_STEPS = 30_000
_MAX_DEPTH = 8


class TooLongError(Exception):
    """The file needs more steps than are spent on one file."""


@dataclass
class Returned:
    """A `return` of the entry: what it gives and what held there."""

    line: int
    values: Values
    state: State


@dataclass
class Frame:
    """One function while it is followed.

    functions: the functions defined in it so far. returns: what its `return` statements gave. left: the states at
    `break` and `continue` of the loops around the current statement.
    """

    function: Callable
    functions: dict[str, Function] = field(default_factory=dict)
    returns: list[Returned] = field(default_factory=list)
    left: list[list[State]] = field(default_factory=list)


class Flow:
    """The walk over one source. `stores`: for each kept name that some code changes, the line that does so."""

    def __init__(self, source: Source) -> None:
        from harness.lint.expressions import Expressions

        self.source = source
        self.index = source.index
        self.stores: dict[str, int] = {}
        self.active: list[Callable] = []
        self._steps = 0
        self._expressions = Expressions(self)

    def run_entry(self, entry: Entry) -> list[Returned]:
        """What each `return` of the entry gives. Raises TooLongError or RecursionError for a file that is too much."""
        function = entry.function
        if function is None:
            return []
        frame = Frame(function)
        state = State()
        self._bind_defaults(function, state)
        arguments = [*function.args.posonlyargs, *function.args.args]
        if entry.receiver is not None and arguments:
            state.names[arguments[0].arg] = frozenset({Kept(entry.receiver)})
            arguments = arguments[1:]
        if arguments:
            state.names[arguments[0].arg] = frozenset({Input()})
        elif function.args.vararg:
            state.names[function.args.vararg.arg] = frozenset({Input()})
        self._body(function, state, frame)
        return frame.returns

    def call(
        self,
        function: Callable,
        arguments: list[Values],
        keywords: dict[str, Values],
        rest: Values,
        state: State,
        enclosing: dict[str, Values] | None = None,
    ) -> Values:
        """What calling a function of the file gives; `state` then holds what the call wrote and stored.

        rest: what `*args` and `**kwargs` of the call hold. enclosing: the variables around a nested function.
        """
        if isinstance(function, ast.AsyncFunctionDef) or function in self.active or len(self.active) >= _MAX_DEPTH:
            for values in (*arguments, *keywords.values(), rest):
                state.write(values)
            return FRESH
        if isinstance(function, ast.FunctionDef) and is_cached(self.source, function):
            self.stores.setdefault(f"{function.name}()", function.lineno)
            return frozenset({Kept(f"{function.name}()")})
        inner = State(dict(enclosing or {}), state.stored, state.may_write, state.must_write)
        self._bind_defaults(function, inner)
        self._bind_arguments(function, arguments, keywords, rest, inner)
        frame = Frame(function)
        ends = self._body(function, inner, frame)
        after = joined([returned.state for returned in frame.returns] + ends)
        if after is not None:
            state.stored, state.may_write, state.must_write = after.stored, after.may_write, after.must_write
        return frozenset().union(*(returned.values for returned in frame.returns))

    def step(self) -> None:
        """Count one step. Raises TooLongError."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise TooLongError

    def _body(self, function: Callable, state: State, frame: Frame) -> list[State]:
        self.active.append(function)
        try:
            if isinstance(function, ast.Lambda):
                values = self._expressions.value(function.body, state, frame)
                frame.returns.append(Returned(function.lineno, values, state.copy()))
                return []
            end = self._block(function.body, state, frame)
            return [] if end is None else [end]
        finally:
            self.active.pop()

    def _bind_defaults(self, function: Callable, state: State) -> None:
        positional = [*function.args.posonlyargs, *function.args.args]
        pairs = list(zip(reversed(positional), reversed(function.args.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d]
        for argument in (*positional, *function.args.kwonlyargs):
            state.names[argument.arg] = FRESH
        for argument, default in pairs:
            if isinstance(default, ast.List | ast.Dict | ast.Set | ast.Call):
                name = getattr(function, "name", "lambda")
                state.names[argument.arg] = frozenset({Kept(f"{name}({argument.arg})")})

    def _bind_arguments(
        self, function: Callable, arguments: list[Values], keywords: dict[str, Values], rest: Values, state: State
    ) -> None:
        positional = [*function.args.posonlyargs, *function.args.args]
        for argument, values in zip(positional, arguments, strict=False):
            state.names[argument.arg] = values
        for number, argument in enumerate(positional[len(arguments) :]):
            if rest:
                state.names[argument.arg] = part(rest, str(number))
        if function.args.vararg:
            state.names[function.args.vararg.arg] = rest.union(*arguments[len(positional) :])
        for name, values in keywords.items():
            if name in state.names:
                state.names[name] = values

    def _block(self, body: list[ast.stmt], state: State, frame: Frame) -> State | None:
        """What holds after the statements, or None where no way leads past them."""
        current: State | None = state
        for statement in body:
            if current is None:
                return None
            self.step()
            current = self._statement(statement, current, frame)
        return current

    def _statement(self, node: ast.stmt, state: State, frame: Frame) -> State | None:
        evaluate = self._expressions
        if isinstance(node, ast.Return):
            values = evaluate.value(node.value, state, frame) if node.value else FRESH
            frame.returns.append(Returned(node.lineno, values, state.copy()))
            return None
        if isinstance(node, ast.Assign):
            self._assign_all(node, state, frame)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, evaluate.value(node.value, state, frame), state, frame)
        elif isinstance(node, ast.AugAssign):
            evaluate.value(node.value, state, frame)
            state.write(evaluate.value(node.target, state, frame))
        elif isinstance(node, ast.Expr):
            evaluate.value(node.value, state, frame)
        elif isinstance(node, ast.FunctionDef):
            frame.functions[node.name] = node
            state.names[node.name] = FRESH
        elif isinstance(node, ast.Raise):
            return None
        elif isinstance(node, ast.Break | ast.Continue):
            if frame.left:
                frame.left[-1].append(state)
            return None
        else:
            return self._compound(node, state, frame)
        return state

    def _compound(self, node: ast.stmt, state: State, frame: Frame) -> State | None:
        evaluate = self._expressions
        if isinstance(node, ast.If):
            evaluate.condition(node.test, state, frame)
            taken = self._block(node.body, state.copy(), frame)
            other = self._block(node.orelse, state, frame)
            return joined(way for way in (taken, other) if way is not None)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, state, frame)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                values = evaluate.value(item.context_expr, state, frame)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, values, state, frame)
            return self._block(node.body, state, frame)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, state, frame)
        if isinstance(node, ast.Match):
            evaluate.condition(node.subject, state, frame)
            ways = [self._block(case.body, state.copy(), frame) for case in node.cases]
            return joined([state, *(way for way in ways if way is not None)])
        if isinstance(node, ast.Assert):
            evaluate.condition(node.test, state, frame)
        return state

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: State, frame: Frame) -> State | None:
        before = state.copy()
        if isinstance(node, ast.While):
            self._expressions.condition(node.test, state, frame)
        else:
            values = self._expressions.value(node.iter, state, frame)
            self.assign(node.target, part(values, None), state, frame)
        frame.left.append([])
        end = self._block(node.body, state, frame)
        ways = frame.left.pop() + ([] if end is None else [end])
        after = joined(ways)
        if after is None:  # every way through the body returns: only an empty loop goes on
            return self._block(node.orelse, before, frame)
        # Taken as run at least once, so what the body writes is written; variables may be the old ones.
        merged = joined([after, before]) or after
        merged.must_write = after.must_write
        return self._block(node.orelse, merged, frame)

    def _try(self, node: ast.Try, state: State, frame: Frame) -> State | None:
        before = state.copy()
        end = self._block([*node.body, *node.orelse], state, frame)
        caught = joined([before, end] if end is not None else [before]) or before
        ways = [self._block(handler.body, caught.copy(), frame) for handler in node.handlers]
        after = joined(way for way in (end, *ways) if way is not None)
        return None if after is None else self._block(node.finalbody, after, frame)

    def _assign_all(self, node: ast.Assign, state: State, frame: Frame) -> None:
        values = self._expressions.value(node.value, state, frame)
        trivial = isinstance(node.value, ast.Constant)
        for target in node.targets:
            self.assign(target, values, state, frame, trivial)

    def assign(self, target: ast.expr, values: Values, state: State, frame: Frame, trivial: bool = False) -> None:
        """Put values into a variable, several, or a part of something; `trivial` for a plain constant."""
        if isinstance(target, ast.Name):
            self._assign_name(target, values, state, frame, trivial)
        elif isinstance(target, ast.Tuple | ast.List):
            for number, inner in enumerate(target.elts):
                self.assign(inner, part(values, str(number)), state, frame)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, part(values, None), state, frame)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self._assign_part(target, values, state, frame)

    def _assign_name(self, target: ast.Name, values: Values, state: State, frame: Frame, trivial: bool) -> None:
        if target.id not in self.index.scopes[frame.function].shared:
            state.names[target.id] = values
            return
        state.stored[Kept(target.id)] = values
        if not trivial:
            self.stores.setdefault(target.id, target.lineno)

    def _assign_part(self, target: ast.Attribute | ast.Subscript, values: Values, state: State, frame: Frame) -> None:
        key = self._expressions.key_of(target)
        of_local = isinstance(target.value, ast.Name) and target.value.id in state.names
        for base in leaves(self._expressions.value(target.value, state, frame)):
            if isinstance(base, Input):
                state.write(frozenset({base}))
                continue
            self.stores.setdefault(base.root, target.lineno)
            if key is None and (of_local or _is_sliced(target)):
                state.write(frozenset({base}))  # `out[i] = …` writes into memory that is kept
            else:
                state.stored[base if key is None else Kept(base.root, (*base.path, key))] = values


def _is_sliced(target: ast.expr) -> bool:
    if not isinstance(target, ast.Subscript):
        return False
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value is ...) for p in parts)
