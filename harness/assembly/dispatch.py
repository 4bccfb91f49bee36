"""The generated parts of a merged file: what it declares, and the choice of a kernel by exact shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.assembly.imports import LINE_LENGTH

# The plain module of variants/ that tells the shape of an input, and its function.
MODULE = "dispatch"
SHAPE_KEY = "shape_key"
GENERATED_NAMES = ("custom_kernel", "entry_for", "VARIANT", "_ENTRIES")

_TAIL = '''\
def entry_for(key):
    """The function for inputs of the shape with this key; the fallback for None and for any other shape.

    key: all arguments of a case but its seed, in the order of task.yml. With it a slice of a batch can be run
    through the code of the whole shape.
    """
    return _ENTRIES.get(key, {fallback})


def custom_kernel(data):
    """The platform's entry: runs the kernel of the input's exact shape."""
    return entry_for({shape_key}(data))(data)
'''


def declaration(shapes: Mapping[str, Mapping[str, Any]], fallback: Mapping[str, Any], target: str) -> str:
    """The merged file's `VARIANT`: what each shape's variant declares, without the shapes and targets it names."""
    inner = {
        "shapes": {label: _without_places(declared) for label, declared in shapes.items()},
        "fallback": _without_places(fallback),
        "targets": [target],
    }
    return f"VARIANT = {literal(inner)}\n"


def dispatch(entries: Mapping[tuple, str], fallback: str, shape_key: str) -> str:
    """The table of entries, `entry_for` and `custom_kernel`. entries: shape key → name of its function."""
    rows = "".join(f"    {literal(key)}: {name},\n" for key, name in entries.items())
    table = f"_ENTRIES = {{\n{rows}}}\n" if rows else "_ENTRIES = {}\n"
    return f"{table}\n\n{_TAIL.format(fallback=fallback, shape_key=shape_key)}"


def literal(value: Any, depth: int = 0, used: int = len("VARIANT = ")) -> str:
    """A Python literal as a formatter would lay it out: on one line where it fits, else one item a line.

    used: columns taken on the line before and behind the value.
    """
    flat = _flat(value)
    if used + depth * 4 + len(flat) <= LINE_LENGTH or not isinstance(value, dict | list | tuple) or not value:
        return flat
    indent = "    " * (depth + 1)
    if isinstance(value, dict):
        rows = [(f"{_flat(key)}: ", item) for key, item in value.items()]
    else:
        rows = [("", item) for item in value]
    body = "".join(f"{indent}{key}{literal(item, depth + 1, len(key) + 1)},\n" for key, item in rows)
    opening, closing = {dict: "{}", list: "[]", tuple: "()"}[type(value)]
    return f"{opening}\n{body}{'    ' * depth}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(key)}: {_flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_flat, value)) + (",)" if len(value) == 1 else ")")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _without_places(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in declared.items() if key not in ("shapes", "targets")}
