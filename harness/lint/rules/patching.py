"""Rules against changing the clocks, the evaluator or the modules that it relies on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.lint.names import dotted
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source
from harness.lint.writes import Write, attribute_writes

# Everything that the platform's evaluator times with.
_TIMERS = ("time", "timeit", "torch.cuda", "torch.Event", "torch.xpu", "torch.accelerator", "triton.testing")
# The evaluator's own modules, and those that it imports. Source: gpu-mode/reference-kernels, eval.py, utils.py.
_TRUSTED = (
    "__main__", "eval", "reference", "task", "utils", "builtins", "__builtins__", "torch.testing", "torch.Tensor",
    "base64", "copy", "dataclasses", "io", "math", "multiprocessing", "os", "pathlib", "random", "re",
    "contextlib", "torch.autograd.profiler", "torch.profiler",
)  # fmt: skip
# Names of the evaluator that nothing honest assigns on any object.
# Source: gpu-mode/kernelguard 0.3.2, the guard's list of trusted names.
_EVALUATOR_NAMES = frozenset({
    "calculate_stats", "check_implementation", "clear_l2_cache", "clear_l2_cache_large", "generate_input",
    "ref_kernel", "run_single_benchmark", "wrap_check_implementation", "_clone_data", "_run_single_benchmark",
})  # fmt: skip
# The methods that the platform's check calls first. Source: gpu-mode/kernelguard 0.3.2.
_TENSOR_METHODS = frozenset({"double", "detach"})
_HOOKS = frozenset({
    "sys.settrace", "sys.setprofile", "sys.addaudithook", "threading.settrace", "threading.setprofile",
    "sys.monitoring.register_callback", "sys.monitoring.set_events",
})  # fmt: skip
_DICT_CHANGES = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"})
_LIST_CHANGES = frozenset({"append", "insert", "extend", "remove", "clear", "pop", "__setitem__"})


def _within(target: str | None, owners: tuple[str, ...]) -> bool:
    return target is not None and any(target == owner or target.startswith(f"{owner}.") for owner in owners)


def _is_timer(write: Write) -> bool:
    return _within(write.target, _TIMERS) or write.attribute == "elapsed_time"


def _is_harness(write: Write) -> bool:
    if write.attribute in _EVALUATOR_NAMES or _within(write.target, _TRUSTED):
        return True
    return write.target is not None and write.target.startswith("torch.") and write.target.count(".") == 1


def _patched_timer(source: Source) -> Hits:
    for write in attribute_writes(source):
        if _is_timer(write):
            what = f"changes `{write.target or write.attribute}`, which the evaluator times with"
            yield write.line, f"{what}: refused as a forged timing; use clocks and events as they are"


def _patched_harness(source: Source) -> Hits:
    for write in attribute_writes(source):
        if _is_harness(write) and not _is_timer(write):
            what = f"changes `{write.target or write.attribute}`, which the evaluator uses"
            yield write.line, f"{what}: refused as tampering; wrap the function under a name of your own"
    yield from _module_table_changes(source)


def _module_table_changes(source: Source) -> Hits:
    message = "changes the table of imported modules: refused as tampering; import under a name of your own"
    for node, where in source.index.stored:
        if isinstance(node, ast.Subscript) and dotted(node.value, where.scope) in ("sys.modules", "builtins.__dict__"):
            yield node.lineno, message
    for node, where in source.index.calls:
        method = node.func
        changes = isinstance(method, ast.Attribute) and method.attr in _DICT_CHANGES
        if changes and dotted(method.value, where.scope) == "sys.modules":
            yield node.lineno, message


def _trace_hook(source: Source) -> Hits:
    for node, _ in source.index.calls:
        called = source.called[node]
        if called in _HOOKS:
            yield node.lineno, f"`{called}` runs code inside the evaluator: refused as tampering; profile locally"


def _import_hook(source: Source) -> Hits:
    tables = ("sys.meta_path", "sys.path_hooks", "sys.path_importer_cache")
    message = "changes how modules are imported, the evaluator's too: import what you need by its name"
    for node, where in source.index.stored:
        owner = node.value if isinstance(node, ast.Subscript) else node
        if dotted(owner, where.scope) in tables:
            yield node.lineno, message
    for node, where in source.index.calls:
        method = node.func
        changes = isinstance(method, ast.Attribute) and method.attr in _LIST_CHANGES | _DICT_CHANGES
        if changes and dotted(method.value, where.scope) in tables:
            yield node.lineno, message


def _module_reload(source: Source) -> Hits:
    for node, where in source.index.calls:
        if dotted(node.func, where.scope) in ("importlib.reload", "imp.reload"):
            yield node.lineno, "loads a module again, which resets its state for the evaluator too: import it once"


def _tensor_override(source: Source) -> Hits:
    for node, where in source.index.stored:
        if not isinstance(node, ast.Attribute) or node.attr not in _TENSOR_METHODS:
            continue
        if isinstance(node.value, ast.Name) and dotted(node.value, where.scope) is None:
            what = f"sets `{node.attr}` of one object, as done to put off work until the result is checked"
            yield node.lineno, f"{what}: compute before returning, and give attributes of your own another name"


def _tensor_subclass(source: Source) -> Hits:
    for sites in source.index.classes.values():
        for node, where in sites:
            if any(dotted(base, where.scope) in ("torch.Tensor", "torch.nn.Parameter") for base in node.bases):
                what = f"class {node.name} derives from a tensor, as done to put off work until the check"
                yield node.lineno, f"{what}: return a plain torch.Tensor, as the `exact` verdict asks"


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("patched-timer", True, _patched_timer)
    yield Rule("patched-harness", True, _patched_harness)
    yield Rule("trace-hook", True, _trace_hook)
    yield Rule("import-hook", True, _import_hook)
    yield Rule("module-reload", False, _module_reload)
    yield Rule("tensor-override", True, _tensor_override)
    yield Rule("tensor-subclass", False, _tensor_subclass)
