"""What a merged file cannot mean rightly wherever it stands: names built at run time, changes to what all share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from harness.assembly.imports import check_from_import
from harness.assembly.source_file import SourceFile, root_name
from harness.errors import CannotMerge

# The platform searches the file's text for this word in every mode, comments and strings included.
# Source: gpu-mode/kernelbot, src/libkernelbot/backend.py (2026).
_REFUSED_WORD = re.compile("stream", re.IGNORECASE)

_BUILDS_NAMES = {
    **dict.fromkeys(("exec", "eval", "compile"), "runs code that is built at run time"),
    **dict.fromkeys(("globals", "__import__", "__builtins__", "vars"), "reaches names by text"),
    **dict.fromkeys(
        ("sys.modules", "sys._getframe", "inspect.currentframe", "inspect.stack", "importlib.reload", "builtins"),
        "reaches another module's names by text",
    ),
}
_SHARED_STATE = {
    "sys.path": "sys.path",
    "os.putenv": "the environment",
    "os.unsetenv": "the environment",
    "os.environ.update": "the environment",
    "os.environ.setdefault": "the environment",
    "os.environ.pop": "the environment",
    "os.environ.clear": "the environment",
    "os.chdir": "the working folder",
    "atexit.register": "the process's exit",
    "torch.manual_seed": "torch's random state",
}
# `torch.set_default_dtype`, `torch.backends.cuda.enable_flash_sdp`, `torch.use_deterministic_algorithms`, …
_TORCH_SETTING = re.compile(r"torch\.(set_|use_deterministic|backends\..*\.?(set_|enable_|preferred_)|cuda\.set_)")


def refuse_what_cannot_be_merged(file: SourceFile, source: str, repository_modules: Iterable[str]) -> None:
    """Look at the whole file, function bodies included.

    repository_modules: modules of the problem folder, which the platform does not have.
    Raises CannotMerge with the file, the line and the reason.
    """
    _refuse_word(file, source)
    repository = set(repository_modules)
    shadowed = {name for part in file.parts for name in part.binds}
    for part in file.parts:
        for found in part.occurrences:
            if found.reach != "local" and not found.stores and found.name not in shadowed:
                _refuse_name(file, found.name, found.line)
    for node in file.nodes:
        check = _CHECKS.get(type(node))
        if check is not None:
            check(file, node, repository)


def _refuse_word(file: SourceFile, source: str) -> None:
    match = _REFUSED_WORD.search(source)
    if match is not None:
        line = source.count("\n", 0, match.start()) + 1
        raise CannotMerge(
            file.path,
            line,
            f"contains the text '{match[0]}': the platform refuses every file with it, even in a comment; "
            "use another word",
        )


def _refuse_name(file: SourceFile, name: str, line: int) -> None:
    full = file.dotted_names.get(name, name)
    if full in _BUILDS_NAMES:
        raise CannotMerge(
            file.path, line, f"{name} {_BUILDS_NAMES[full]}: the merge cannot see what it uses; write the names out"
        )


def _check_attribute(file: SourceFile, node: ast.Attribute, _: set[str]) -> None:
    full = file.dotted(node)
    if full in _BUILDS_NAMES and "." in full:
        raise CannotMerge(
            file.path,
            node.lineno,
            f"{full} {_BUILDS_NAMES[full]}: the merge cannot see what it uses; write the names out",
        )
    if full is None:
        return
    if full in _SHARED_STATE or _TORCH_SETTING.match(full):
        _refuse_shared(file, node, full, _SHARED_STATE.get(full, "a setting of torch"))
    if not isinstance(node.ctx, ast.Load) and root_name(node) in file.dotted_names:
        _refuse_shared(file, node, full, f"{full}, a global that does not belong to it")


def _check_subscript(file: SourceFile, node: ast.Subscript, _: set[str]) -> None:
    if not isinstance(node.ctx, ast.Load) and root_name(node) in file.dotted_names:
        full = file.dotted(node.value)
        shown = "the environment" if full == "os.environ" else f"{full}, a global that does not belong to it"
        _refuse_shared(file, node, str(full), shown)


def _refuse_shared(file: SourceFile, node: ast.AST, name: str, shown: str) -> None:
    raise CannotMerge(
        file.path,
        node.lineno,
        f"{name} changes {shown}: all variants of the merged file would share one value; pass it as an argument "
        "instead",
    )


def _check_call(file: SourceFile, node: ast.Call, repository: set[str]) -> None:
    full = file.dotted(node.func)
    first = node.args[0] if node.args else None
    if full in ("setattr", "delattr") and first is not None and root_name(first) in file.dotted_names:
        _refuse_shared(file, node, full, f"{ast.unparse(first)}, a module that does not belong to it")
    if full == "importlib.import_module" and (
        not isinstance(first, ast.Constant) or str(first.value).partition(".")[0] in repository
    ):
        raise CannotMerge(
            file.path, node.lineno, "importlib.import_module hides what is imported; use a plain import statement"
        )


def _check_import(file: SourceFile, node: ast.Import | ast.ImportFrom, repository: set[str]) -> None:
    if isinstance(node, ast.ImportFrom):
        check_from_import(node, file.path)
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
    for module in modules:
        if module.partition(".")[0] in repository and not any(node is top for top in file.tree.body):
            raise CannotMerge(
                file.path,
                node.lineno,
                f"import {module} at module level, outside of any block, so that it can be inlined",
            )


_CHECKS = {
    ast.Attribute: _check_attribute,
    ast.Subscript: _check_subscript,
    ast.Call: _check_call,
    ast.Import: _check_import,
    ast.ImportFrom: _check_import,
}
