"""The merge's scope analysis and renaming, held against Python's own compiler on the standard library."""

from __future__ import annotations

import ast
import symtable
import sysconfig
from pathlib import Path

import pytest

from harness.assembly.renaming import renamed_text
from harness.assembly.rewrite_cache import RewriteCache
from harness.assembly.scopes import occurrences
from harness.assembly.source_file import Part, read_source_file
from harness.errors import CannotMerge

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
MODULES = [
    "argparse",
    "bisect",
    "contextlib",
    "csv",
    "fractions",
    "functools",
    "inspect",
    "imaplib",
    "textwrap",
    "turtle",
]


def global_names(table: symtable.SymbolTable) -> set[str]:
    """The names that inner scopes take from the module, as the compiler sees them."""
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return names.union(*(global_names(child) for child in table.get_children()))


def function_parts(module: str) -> list[Part]:
    """The module-level functions and classes of a standard module."""
    source = (LIBRARY / f"{module}.py").read_text(encoding="utf-8")
    file = read_source_file(source, Path(f"{module}.py"))
    return [part for part in file.parts if isinstance(part.node, ast.FunctionDef | ast.ClassDef)]


@pytest.mark.parametrize("module", MODULES)
def test_names_of_the_module_are_those_that_the_compiler_finds(module: str) -> None:
    compared = 0
    for part in function_parts(module):
        table = symtable.symtable(part.text, module, "exec")
        expected = set().union(*map(global_names, table.get_children()))
        # Here the statement is the module's whole text, so a decorator or default is a use in the module itself.
        found = {item.name for item in part.occurrences if item.reach == "module"}
        unclear = {item.name for item in part.occurrences if item.reach == "class"}
        own_level = {symbol.get_name() for symbol in table.get_symbols()}
        # The compiler lists __class__, which no source names.
        expected -= {"__class__"}
        assert expected <= found | unclear, part.line
        assert found <= expected | own_level, part.line
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("module", ["bisect", "csv", "fractions", "textwrap"])
def test_renaming_everything_changes_nothing_but_the_names(module: str) -> None:
    source = (LIBRARY / f"{module}.py").read_text(encoding="utf-8")
    file = read_source_file(source, Path(f"{module}.py"))
    names = set().union(*(part.binds for part in file.parts), (item.local for item in file.imports))
    renamed = 0
    for part in file.parts:
        changes = {name: f"qq_{name}" for name in names & (part.binds | part.needs)}
        if not changes or isinstance(part.node, ast.Pass):
            continue
        text = renamed_text(part, changes, RewriteCache(None))
        assert text != part.text
        assert text.replace(" as qq_error", "").replace("qq_", "") == part.text
        renamed += 1
    assert renamed > 3


SHADOWING = [
    ("f = lambda N, *, k=N: N + M", {"N": 1, "M": 1}),
    ("x = [N for N in N if N]", {"N": 1}),
    ("x = {N: M for N in y for M in N}", {}),
    ("def f(N: N = N) -> N:\n    return N", {"N": 3}),
    ("class C(N):\n    M = N\n    def f(self):\n        return M", {"N": 2, "M": 1}),
    ("def f():\n    global N\n    N = 1\n    def g():\n        return N", {"N": 3}),
    ("def f():\n    N = 1\n    def g():\n        nonlocal N\n        N += M", {"M": 1}),
    ("def f():\n    if (N := M):\n        return [N := k for k in N]", {"M": 1}),
    ("def f():\n    try:\n        pass\n    except M as N:\n        return N", {"M": 1}),
    ("def f():\n    import N.M\n    from x import M as y\n    return N, M", {"M": 1}),
    ("def f(x):\n    match x:\n        case M.N(N=k, M=[*N]) | {'a': N, **M}:\n            return M, N", {}),
    ("x = f'{N:{M}} N {(lambda N: N)(1)!r}'", {"N": 1, "M": 1}),
    ("def f(x: 'N', y: 'Literal[M]', z: Literal['M']) -> 'dict[str, N]': pass", {"N": 2, "M": 1}),
    ("x.N = y(N=M).M[N]", {"N": 1, "M": 1}),
    ("with N as M, a as b.N:\n    del M", {"N": 1, "M": 2}),
    ("@N.M\n@M\ndef f(): pass", {"N": 1, "M": 1}),
    ("class C:\n    def f(self, N=M):\n        return __class__, N", {"M": 1}),
]


@pytest.mark.parametrize(("source", "uses"), SHADOWING)
def test_each_use_is_told_apart_from_a_shadowing_one(source: str, uses: dict[str, int]) -> None:
    [statement] = ast.parse(source).body
    found = [item.name for item in occurrences(statement) if item.reach == "module" and item.name in "NM"]
    assert {name: found.count(name) for name in set(found)} == uses


@pytest.mark.parametrize(("source", "uses"), SHADOWING)
def test_renaming_changes_as_many_names_as_mean_the_module(source: str, uses: dict[str, int]) -> None:
    [part] = read_source_file(source, Path("a.py")).parts
    changes = {name: f"new_{name}" for name in uses}
    text = renamed_text(part, changes, RewriteCache(None)) if changes else part.text
    assert {name: text.count(f"new_{name}") for name in uses} == uses
    assert text.replace("new_", "") == source


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("class C:\n    y = 1\n    N = N", 3, "class body both reads the global N and binds it"),
        ("x = f'{N=}'", 1, "an f-string prints a name with `=`"),
        ("try:\n    import N.M\nexcept ImportError:\n    pass", 1, "`import N.M` binds N"),
        ("def f(new_N):\n    return N + new_N", 1, "cannot tell which uses of N"),
    ],
)
def test_what_cannot_be_renamed_is_refused_with_its_line(source: str, line: int, reason: str) -> None:
    [part] = read_source_file(source, Path("a.py")).parts
    with pytest.raises(CannotMerge, match=reason) as caught:
        renamed_text(part, {"N": "new_N"}, RewriteCache(None))
    assert caught.value.line == line
