"""Rules on what `custom_kernel` is and what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from harness.lint.entry import Callable, find_entries
from harness.lint.flow import Flow, Returned, TooLongError
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source
from harness.lint.values import Input, Kept, leaves, overlaps


def _syntax_error(source: Source) -> Hits:
    if source.syntax_error is not None:
        line, message = source.syntax_error
        yield line, f"syntax error: {message}"


def _no_entry(source: Source) -> Hits:
    if source.syntax_error is not None:
        return
    entries = find_entries(source)
    if not entries:
        yield 1, "defines no `custom_kernel(data)` at module level, which is what the evaluator calls"
    for entry in entries:
        problem = _cannot_be_called(entry.function, entry.receiver is not None)
        if problem:
            yield entry.line, f"custom_kernel {problem}; the evaluator calls custom_kernel(data)"


def _cannot_be_called(function: Callable | None, is_method: bool) -> str | None:
    """Why `function(data)` fails, or None."""
    if function is None:
        return None
    if isinstance(function, ast.AsyncFunctionDef):
        return "is a coroutine"
    if isinstance(function, ast.FunctionDef) and _yields(function):
        return "is a generator"
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - is_method
    required = positional - len(arguments.defaults)
    if positional < 1 and arguments.vararg is None:
        return "takes no positional parameter"
    if required > 1:
        return f"needs {required} positional arguments"
    if any(default is None for default in arguments.kw_defaults):
        return "needs a keyword argument"
    return None


def _yields(function: ast.FunctionDef) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp):
            waiting.extend(ast.iter_child_nodes(node))
    return False


@lru_cache(maxsize=1)
def _returned(source: Source) -> tuple[list[Returned], dict[str, int]]:
    """What the entries return, and the kept names that the file changes with the line of one change."""
    flow = Flow(source)
    returned: list[Returned] = []
    for entry in find_entries(source):
        try:
            returned += flow.run_entry(entry)
        except (TooLongError, RecursionError):
            continue
    return returned, flow.stores


def _input_as_output(source: Source) -> Hits:
    for returned in _returned(source)[0]:
        for value in leaves(returned.values):
            if isinstance(value, Input) and not any(overlaps(value, other) for other in returned.state.may_write):
                yield returned.line, "returns its input, or a view or copy of it, as the result: compute the result"


def _output_replay(source: Source) -> Hits:
    for entry in find_entries(source):
        if entry.cached:
            yield entry.line, "custom_kernel keeps its results by argument and returns old ones: compute each time"
    for returned, value, line in _kept_results(source):
        if not any(overlaps(value, other) for other in returned.state.must_write):
            what = f"returns what an earlier call left in `{value.root}` (stored in line {line}), whatever the key"
            yield returned.line, f"{what}: refused as replay; keep schedules and workspaces, never results"


def _reused_output(source: Source) -> Hits:
    for returned, value, _ in _kept_results(source):
        if any(overlaps(value, other) for other in returned.state.must_write):
            what = f"returns memory that `{value.root}` keeps between calls"
            yield returned.line, f"{what}: the next call overwrites the caller's result; allocate it in each call"


def _kept_results(source: Source) -> Iterator[tuple[Returned, Kept, int]]:
    """The results that come from a name which the file changes, and the line of one change."""
    returns, stores = _returned(source)
    for returned in returns:
        for value in leaves(returned.values):
            if isinstance(value, Kept) and value.root in stores:
                yield returned, value, stores[value.root]


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("syntax-error", True, _syntax_error)
    yield Rule("no-entry", True, _no_entry)
    yield Rule("input-as-output", True, _input_as_output)
    yield Rule("output-replay", True, _output_replay)
    yield Rule("reused-output", False, _reused_output)
