"""Writes the merged file from the units: header, imports, declaration, one section a file, dispatch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from harness.assembly import dispatch
from harness.assembly.definitions import Unit, is_comment
from harness.assembly.header import header
from harness.assembly.imports import import_block
from harness.assembly.likeness import classes_of
from harness.assembly.names import Names, choose_names
from harness.assembly.registries import refuse_shared_registrations
from harness.assembly.renaming import renamed_text
from harness.assembly.rewrite_cache import RewriteCache
from harness.assembly.source_file import Part
from harness.assembly.winners import Winners
from harness.errors import CannotMerge
from harness.problem.problem import Problem
from harness.problem.variant import ENTRY, Variant

# What reads annotations as objects: text, which `from __future__ import annotations` makes of them, is another thing.
_ANNOTATION_READERS = frozenset(
    (
        "torch.library.custom_op", "torch.library.triton_op", "torch.library.infer_schema", "typing.get_type_hints",
        "inspect.get_annotations", "functools.singledispatch", "functools.singledispatchmethod",
    )
)  # fmt: skip
_RULE = "# " + "-" * 78


def merged_source(
    winners: Winners,
    target: str,
    problem: Problem,
    variants: Mapping[str, Variant],
    groups: Mapping[str, list[Unit]],
    chooser: list[Unit],
    cache: RewriteCache,
) -> str:
    """The text of the merged file.

    variants: name → variant, in the order of their sections. groups: name → its units, itself last.
    chooser: the units that define the shape key. Raises CannotMerge, BrokenWinners.
    """
    units = [unit for group in [*groups.values(), chooser] for unit in group]
    classes = classes_of(units, apart_with_state=True)
    refuse_shared_registrations(units, classes)
    names = choose_names(units, classes, dispatch.GENERATED_NAMES)
    held = winners.of(target)
    entries = {name: names.of(group[-1], ENTRY) for name, group in groups.items()}
    keys = {
        shape.key: entries[held.shapes[shape.label].variant] for shape in problem.shapes if shape.label in held.shapes
    }
    declared = {label: variants[winner.variant].declared for label, winner in held.shapes.items()}
    top = [
        header(winners, target, [shape.label for shape in problem.shapes]),
        _imports(units, names, groups),
        dispatch.declaration(declared, variants[held.fallback].declared, target),
    ]
    places = {name: [label for label, winner in held.shapes.items() if winner.variant == name] for name in variants}
    places[held.fallback].append("any other shape")
    sections = [
        *_sections(units, names, places, cache),
        dispatch.dispatch(keys, entries[held.fallback], names.of(chooser[-1], dispatch.SHAPE_KEY)),
    ]
    return "\n\n".join(["\n".join(_block(text) for text in top if text), *(_block(text) for text in sections)])


def _block(text: str) -> str:
    return text.strip("\n") + "\n"


def _imports(units: Iterable[Unit], names: Names, variants: Iterable[str]) -> str:
    future: set[str] = set()
    imports = []
    for unit in units:
        future |= unit.file.future
        needed = {name for definition in unit.definitions for name in definition.needs}
        for item in unit.outside_imports:
            # A plain module gives only what is needed of it; a variant's import may matter by itself.
            if unit.file.name in variants or item.local in needed:
                imports.append(item.bound_to(names.imports[item.local, item.identity]))
    if "annotations" in future:
        for unit in units:
            _refuse_read_annotations(unit)
    return import_block(future, imports)


def _refuse_read_annotations(unit: Unit) -> None:
    if "annotations" in unit.file.future:
        return
    for node in unit.file.nodes:
        full = unit.file.dotted(node) if isinstance(node, ast.Attribute | ast.Name) else None
        if full in _ANNOTATION_READERS:
            raise CannotMerge(
                unit.file.path,
                node.lineno,
                f"{full} reads annotations, which another variant's `from __future__ import annotations` turns into "
                "text for the whole merged file; add that import here and see that it still works",
            )


def _sections(units: Iterable[Unit], names: Names, places: Mapping[str, list[str]], cache: RewriteCache) -> list[str]:
    """One text a file: its comment, then each of its parts that no section before has."""
    written: set[int] = set()
    sections = []
    for unit in units:
        definition_of = {part: definition for definition in unit.definitions for part in definition.parts}
        fresh = [definition for definition in unit.definitions if names.classes[definition] not in written]
        written.update(names.classes[definition] for definition in fresh)
        parts = [part for part in unit.file.parts if definition_of.get(part) in fresh]
        if not all(is_comment(part) for part in parts):
            sections.append(_section(unit, parts, names, places, cache))
    return sections


def _section(
    unit: Unit, parts: Iterable[Part], names: Names, places: Mapping[str, list[str]], cache: RewriteCache
) -> str:
    name = unit.file.name
    title = f"{name}: {', '.join(places[name])}" if name in places else f"{name}, inlined"
    preface = [f"# {line}".rstrip() for line in unit.file.preface]
    text = "\n".join([_RULE, f"# {title}", *(["#", *preface] if preface else []), _RULE])
    before: Part | None = None
    for part in parts:
        text += "\n" * (_blank_lines(before, part) + 1) + _text(unit, part, names, cache)
        before = part
    return text


def _text(unit: Unit, part: Part, names: Names, cache: RewriteCache) -> str:
    changes = {} if is_comment(part) else names.changes(unit, part)
    return renamed_text(part, changes, cache) if changes else part.text


def _blank_lines(before: Part | None, part: Part) -> int:
    """As a formatter wants them: two around functions and classes, else as the source has them."""
    if _is_definition(part) or (before is not None and _is_definition(before)):
        return 2
    return max(1, min(part.blank_lines, 2)) if before is None else min(part.blank_lines, 2)


def _is_definition(part: Part) -> bool:
    return isinstance(part.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
