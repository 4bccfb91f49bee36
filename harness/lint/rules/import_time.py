"""Rule against work on the GPU while the file is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.lint.index import ENTRY, Site
from harness.lint.names import dotted, folded
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

_DEVICES = ("cuda", "hip")
_DEVICE_CALLS = frozenset({
    "torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.graph", "torch.cuda.CUDAGraph",
    "torch.cuda.mem_get_info", "torch.cuda.make_graphed_callables",
})  # fmt: skip


def _import_work(source: Source) -> Hits:
    for node, where in source.index.calls:
        if not source.index.runs_at_import(where):
            continue
        what = _device_work(source, Site(node, where))
        if what is not None:
            why = "while the file is imported, which the runner does before each mode, for 120 s at most"
            yield node.lineno, f"{what} {why}: do it in the first call of custom_kernel, and keep it by device"


def _device_work(source: Source, site: Site) -> str | None:
    node = site.node
    if not isinstance(node, ast.Call):
        return None
    called = source.called[node] or ""
    if isinstance(node.func, ast.Name) and node.func.id == ENTRY:
        return "calls custom_kernel"
    if isinstance(node.func, ast.Subscript) and _is_own_function(source, node.func.value):
        return "launches a kernel"
    if called in _DEVICE_CALLS:
        return f"calls {called}"
    if called.startswith("torch.") and any(_names_device(k.value, site) for k in node.keywords if k.arg == "device"):
        return f"allocates on the GPU ({called})"
    if isinstance(node.func, ast.Attribute) and not called.startswith("torch."):
        if node.func.attr == "cuda" and not node.args:
            return "moves a tensor to the GPU"
        if node.func.attr == "to" and node.args and _names_device(node.args[0], site):
            return "moves a tensor to the GPU"
    return None


def _is_own_function(source: Source, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in source.index.functions


def _names_device(node: ast.expr, site: Site) -> bool:
    text = folded(node, site.where.scope)
    if text is None and isinstance(node, ast.Call) and dotted(node.func, site.where.scope) == "torch.device":
        text = folded(node.args[0], site.where.scope) if node.args else None
    if text is None and isinstance(node, ast.Name):
        owner = site.where.scope.owner_of(node.id)
        bindings = owner.bindings[node.id] if owner else []
        return any(isinstance(value, ast.Call) and _names_device(value, site) for value in bindings)
    return text is not None and text.split(":")[0] in _DEVICES


def rules() -> Iterator[Rule]:
    """The rule of this family."""
    yield Rule("import-work", False, _import_work)
