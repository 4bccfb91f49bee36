"""Whatever small variants are merged, the merged file answers on each shape as that shape's variant alone."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from assembly_cases.problem_folder import load_file, make_problem, merge, run_source, winners_text
from hypothesis import given, settings
from hypothesis import strategies as st

# Few names, so that constants, helpers, parameters, locals, imports and plain modules collide all the time.
NAMES = ("alpha", "beta", "gamma", "delta", "a", "_b", "sum", "math")
CONSTANTS = ("alpha", "beta", "_b")
numbers = st.integers(0, 3)
name = st.sampled_from(NAMES)


@st.composite
def expression(
    draw: st.DrawFn, known: tuple[str, ...], callables: tuple[str, ...], depth: int = 2, quotes: str = "\"'"
) -> str:
    """An expression over `known` values and `callables` of one argument, with names bound inside that shadow them.

    quotes: what an f-string in it may be quoted with; one in another needs the other mark before Python 3.12.
    """
    kinds = ["number", "name"] if known else ["number"]
    if depth:
        kinds += ["add", "lambda", "comprehension", "walrus"]
        kinds += ["call"] if callables else []
        kinds += ["text"] if quotes else []
    kind = draw(st.sampled_from(kinds))
    if kind == "number":
        return str(draw(numbers))
    if kind == "name":
        return draw(st.sampled_from(known))

    def inner(more: tuple[str, ...] = (), quotes: str = quotes) -> str:
        return draw(expression(known + more, tuple(n for n in callables if n not in more), depth - 1, quotes))

    if kind == "add":
        return f"({inner()} + {inner()} * {inner()})"
    if kind == "call":
        return f"{draw(st.sampled_from(callables))}({inner()})"
    bound = draw(name)
    if kind == "lambda":
        return f"(lambda {bound}: {inner((bound,))})({bound}={inner()})"
    if kind == "comprehension":
        return f"max([{inner((bound,))} for {bound} in range({draw(numbers)} + 1)])"
    if kind == "walrus":
        return f"({inner()} + (walrus := {inner()}))"
    return f"len(f{quotes[0]}{{{inner(quotes=quotes[1:])}:>{{{draw(numbers)} + 1}}}} {bound}{quotes[0]})"


@st.composite
def variant(draw: st.DrawFn) -> str:
    """A file with constants, helpers, a class, state, an import or two, and an entry."""
    lines = [draw(st.sampled_from(["", '"""Words."""', "# Words.", "from __future__ import annotations"]))]
    known: tuple[str, ...] = ()
    callables: tuple[str, ...] = ()
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(["from math import floor as gamma", "from math import ceil as gamma"])))
        callables += ("gamma",)
    if draw(st.booleans()):
        lines.append("from shared import delta, SHARED")
        callables, known = (*callables, "delta"), (*known, "SHARED")
    for constant in draw(st.lists(st.sampled_from(CONSTANTS), unique=True, max_size=3)):
        value = draw(expression(known, (), 0))
        lines.append(f"{constant} = {value}{draw(st.sampled_from(['', '  # why']))}")
        known += (constant,)
    helpers = ("alpha", "beta", "sum", "math", "a")
    for helper in draw(st.lists(st.sampled_from(helpers), unique=True, max_size=4)):
        if helper in known:
            continue
        parameter = draw(name.filter(lambda n, helper=helper: n != helper))
        inside = tuple(n for n in callables if n != parameter)
        body = draw(expression((*known, parameter), inside))
        default = draw(expression(known, (), 0))
        lines += ["", "", f"def {helper}({parameter}={default}):"]
        if draw(st.booleans()):
            lines.append(f'    """{draw(st.sampled_from(["One.", "Two."]))}"""')
        lines.append(f"    return {body}")
        callables += (helper,)
    if draw(st.booleans()):
        body = draw(expression(known, callables, 1))
        lines += ["", "", "class Box:", f"    alpha = {draw(numbers)}", "", "    def beta(self, sum=1):"]
        lines.append(f"        return self.alpha + sum + {body}")
        callables += ("Box().beta",)
    stateful = draw(st.booleans())
    if stateful:
        lines += ["", "_calls = []", "_count = 0", "", "", "def counted():", "    global _count"]
        lines += [f"    _count += {draw(numbers)}", "    _calls.append(_count)", "    return len(_calls) + _count"]
    result = draw(expression((*known, "x"), callables))
    lines += [
        "",
        "",
        "def custom_kernel(data):",
        '    x = data["x"]',
        f"    return ({result}, {'counted()' if stateful else '0'})",
    ]
    return "\n".join(lines).lstrip("\n") + "\n"


@st.composite
def shared_module(draw: st.DrawFn) -> str:
    """A plain module, with state or without."""
    if draw(st.booleans()):
        return "SHARED = 2\n_seen = []\n\n\ndef delta(x):\n    _seen.append(x)\n    return x + len(_seen)\n"
    return "SHARED = 2\nalpha = 5\n\n\ndef delta(x):\n    return alpha * x + SHARED\n"


def answers(entry, rounds: int = 2) -> list[object]:
    """What an entry returns, errors included, over rounds of inputs of every shape."""
    found: list[object] = []
    for x in range(rounds):
        for n in (1, 2, 3):
            try:
                found.append(entry({"n": n, "x": x}))
            except Exception as error:  # a helper that calls an int, say: then alone as merged
                found.append(type(error))
    return found


@settings(max_examples=120, deadline=None)
@given(first=variant(), second=variant(), third=variant(), shared=shared_module())
def test_a_merged_file_equals_its_parts(first: str, second: str, third: str, shared: str) -> None:
    files = {"a": first, "b": second, "c": third, "shared": shared}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        problem = make_problem(root, files, winners_text({"1": "a", "2": "b", "3": "c"}, "c"))
        source = merge(problem).source
        alone = {
            n: load_file(root / "variants" / f"{file}.py").custom_kernel for n, file in ((1, "a"), (2, "b"), (3, "c"))
        }
        merged = run_source(source)["custom_kernel"]
        assert answers(merged) == answers(lambda data: alone[data["n"]](data)), source


@settings(max_examples=40, deadline=None)
@given(first=variant(), second=variant())
def test_a_name_that_no_other_file_has_keeps_its_own(first: str, second: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = merge(make_problem(Path(folder), {"a": first, "b": second, "shared": shared_of_test()})).source
    merged = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    # A plain module that both import is in both: it is left out by asking only for what it does not have.
    only_first = top_names(first) - names_in(second) - names_in(shared_of_test()) - {"custom_kernel", "a", "_b"}
    assert {n for n in only_first if n not in merged and n not in source} == set()
    assert not any(f"a_{n}" in merged or f"_a{n}" in merged for n in only_first), source


def shared_of_test() -> str:
    """A plain module without state."""
    return "SHARED = 2\n\n\ndef delta(x):\n    return x\n"


def top_names(source: str) -> set[str]:
    """The names that a file's functions, classes and assignments define."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def names_in(source: str) -> set[str]:
    """Every identifier of a file."""
    nodes = list(ast.walk(ast.parse(source)))
    return (
        {node.id for node in nodes if isinstance(node, ast.Name)}
        | {node.arg for node in nodes if isinstance(node, ast.arg)}
        | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    )
