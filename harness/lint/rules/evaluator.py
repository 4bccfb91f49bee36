"""Rules against behaving differently under the evaluator, or speaking in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.lint.index import Site
from harness.lint.names import dotted, folded
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

_MODES = frozenset({"test", "benchmark", "leaderboard", "profile"})
_OWN_PROCESS = re.compile(r"/proc/(self\b|thread-self\b|\d|$)")
_ENVIRONMENT_READS = frozenset({
    "os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.environ.__getitem__",
    "os.putenv", "os.unsetenv",
})  # fmt: skip
_RUNNING_PROCESS = frozenset({
    "os.getppid", "psutil.Process", "multiprocessing.current_process", "multiprocessing.parent_process",
})  # fmt: skip
_REPORT_KEY = re.compile(r"^(benchmark|test)(-count\b|\.\d+\.|\.$)|\bRanked Benchmark\b|^check:\s*(pass|fail)")
_DESCRIPTOR_SOURCES = ("os.open", "os.pipe", "os.memfd_create", "tempfile.mkstemp", "os.dup", "os.openpty")
_DESCRIPTOR_WRITES = frozenset({
    "os.write", "os.writev", "os.pwrite", "os.fdopen", "os.dup2", "os.sendfile",
})  # fmt: skip


def _evaluator_mode(source: Source) -> Hits:
    advice = "the same code must run in every mode; use the arguments of custom_kernel only"
    for node, where in [*source.index.calls, *source.index.stored]:
        name = _environment_name(Site(node, where))
        if name is not None and name.upper().startswith("POPCORN"):
            yield node.lineno, f"reads or sets the evaluator's variable {name}: {advice}"
    yield from _environment_items(source, advice)
    yield from _argument_reads(source, advice)
    for node, where in source.index.strings:
        if _OWN_PROCESS.match(node.value):
            yield node.lineno, f"looks at its own process ({node.value}), which tells the evaluator's mode: {advice}"
        elif node.value == "__main__" and source.index.is_live(where):
            yield node.lineno, f"names the evaluator's module `__main__`: {advice}"
    for node, _ in source.live_calls():
        called = source.called[node]
        if called in _RUNNING_PROCESS:
            yield node.lineno, f"`{called}` looks at the evaluator's processes: {advice}"
    for node, where in source.index.imports:
        if "__main__" in _modules(node):
            yield node.lineno, f"imports the evaluator as `__main__`: {advice}"
        elif _modules(node) == ["sys"] and source.index.is_live(where) and _imports(node, "argv"):
            yield node.lineno, f"reads the evaluator's arguments (sys.argv): {advice}"


def _imports(node: ast.Import | ast.ImportFrom, name: str) -> bool:
    return any(alias.name == name for alias in node.names)


def _modules(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _environment_name(site: Site) -> str | None:
    node, where = site
    if isinstance(node, ast.Call) and dotted(node.func, where.scope) in _ENVIRONMENT_READS and node.args:
        return folded(node.args[0], where.scope)
    if isinstance(node, ast.Subscript) and dotted(node.value, where.scope) == "os.environ":
        return folded(node.slice, where.scope)
    return None


def _environment_items(source: Source, advice: str) -> Hits:
    """`os.environ["POPCORN_FD"]` and `"POPCORN_SEED" in os.environ`: strings that name one of its variables."""
    for node, _ in source.index.strings:
        if re.fullmatch(r"POPCORN_[A-Z_]+", node.value):
            yield node.lineno, f"names the evaluator's variable {node.value}: {advice}"


def _argument_reads(source: Source, advice: str) -> Hits:
    reads = [site for site in source.index.attributes if dotted(site.node, site.where.scope) == "sys.argv"]
    names_a_mode = any(node.value in _MODES for node, _ in source.index.strings)
    for node, where in reads:
        if source.index.is_live(where):
            yield node.lineno, f"reads the evaluator's arguments (sys.argv): {advice}"
        elif names_a_mode:
            yield node.lineno, "reads sys.argv and names a mode: the guard refuses that wherever it stands; rename it"


def _reference_import(source: Source) -> Hits:
    for node, where in source.index.imports:
        if not source.index.is_live(where):
            continue
        for name in _modules(node):
            if name in ("reference", "eval"):
                what = f"imports the evaluator's `{name}`: the guard takes note of it"
                yield node.lineno, f'{what}; for your own tests import it under `if __name__ == "__main__":`'


def _forged_report(source: Source) -> Hits:
    for node, _ in source.live_calls():
        called = source.called[node]
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        prints = called == "print" or method in ("write", "writelines")
        if prints and any(_is_report_text(argument) for argument in node.args):
            yield node.lineno, "prints what looks like the evaluator's report: refused as a forged result"


def _is_report_text(node: ast.expr) -> bool:
    constants = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return any(isinstance(text, str) and _REPORT_KEY.search(text) for text in constants)


def _descriptor_write(source: Source) -> Hits:
    advice = "it may be the evaluator's result pipe; do not touch it"
    for node, where in source.index.calls:
        called = source.called[node]
        opened_by_number = called == "open" and bool(node.args) and _is_number(node.args[0])
        if called in _DESCRIPTOR_WRITES and node.args and not _is_own_descriptor(node.args[0], Site(node, where)):
            yield node.lineno, f"`{called}` on a descriptor that the file did not open: {advice}"
        elif opened_by_number:
            yield node.lineno, f"opens a file descriptor by its number: {advice}"


def _is_number(node: ast.expr) -> bool:
    is_conversion = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int"
    return is_conversion or (isinstance(node, ast.Constant) and type(node.value) is int)


def _is_own_descriptor(node: ast.expr, site: Site) -> bool:
    """Whether the descriptor comes from a call in this file that opens one."""
    if isinstance(node, ast.Call):
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return method == "fileno" or dotted(node.func, site.where.scope) in _DESCRIPTOR_SOURCES
    if not isinstance(node, ast.Name):
        return False
    owner = site.where.scope.owner_of(node.id)
    if owner is None:
        return False
    if isinstance(owner.node, ast.FunctionDef) and node.id in {argument.arg for argument in owner.node.args.args}:
        return True  # opened by the caller, whose own line is looked at
    values = [value for value in owner.bindings[node.id] if isinstance(value, ast.expr)]
    if values:
        return all(_is_own_descriptor(value, site) for value in values)
    return _unpacked_from_source(node.id, owner.node, site)


def _unpacked_from_source(name: str, within: ast.AST, site: Site) -> bool:
    """`fd, path = tempfile.mkstemp()`: the name is one of several that such a call gives."""
    for inner in ast.walk(within):
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Tuple):
            named = any(isinstance(part, ast.Name) and part.id == name for part in inner.targets[0].elts)
            if named and isinstance(inner.value, ast.Call):
                return dotted(inner.value.func, site.where.scope) in _DESCRIPTOR_SOURCES
    return False


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("evaluator-mode", True, _evaluator_mode)
    yield Rule("reference-import", False, _reference_import)
    yield Rule("forged-report", True, _forged_report)
    yield Rule("descriptor-write", True, _descriptor_write)
