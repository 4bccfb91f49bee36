"""What the files of a merge define, and which definition each name means."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.assembly.imports import Import
from harness.assembly.source_file import Part, SourceFile
from harness.assembly.state import names_with_state
from harness.errors import CannotMerge
from harness.problem.variant import ENTRY

# Names that only the file alone needs; kept only where its code reads them.
FILE_NAMES = frozenset(("VARIANT", "__all__"))


@dataclass(eq=False)
class Definition:
    """The statements that together make one or several module-level names of one unit.

    Usually one statement; several where a name is bound again, changed at import or rebound through `global`.
    has_state: two variants must not share it, see `harness.assembly.state`.
    """

    unit: Unit
    parts: tuple[Part, ...]
    has_state: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it makes, sorted; none for an `assert`."""
        return tuple(sorted(set().union(*(part.binds for part in self.parts))))

    @property
    def needs(self) -> tuple[str, ...]:
        """The names that it takes from its unit, sorted."""
        return tuple(sorted(set().union(*(part.needs for part in self.parts))))


# What a name can mean: a definition, an import of something outside, or nothing of the file (a builtin).
Meaning = Definition | Import | None


@dataclass(eq=False)
class Unit:
    """One file in the service of one variant; a plain module is one unit for each variant that imports it.

    plain: module name → unit, for the plain modules that it imports from.
    """

    owner: str
    file: SourceFile
    plain: Mapping[str, Unit]
    definitions: list[Definition] = field(default_factory=list)
    _meanings: dict[str, Meaning] = field(default_factory=dict)

    def __post_init__(self) -> None:
        state = names_with_state(self.file)
        for parts in _grouped(self.file.parts):
            definition = Definition(self, parts)
            definition.has_state = not state.isdisjoint(definition.names)
            self.definitions.append(definition)
            self._meanings.update(dict.fromkeys(definition.names, definition))
        for item in self.file.imports:
            self._add_import(item)
        self._drop_file_names()

    @property
    def outside_imports(self) -> list[Import]:
        """The imports that the merged file has to make."""
        return [item for item in self.file.imports if item.module not in self.plain]

    def meaning(self, name: str) -> Meaning:
        """What `name` means at module level in this file."""
        return self._meanings.get(name)

    def _add_import(self, item: Import) -> None:
        before = self._meanings.get(item.local)
        if isinstance(before, Definition):
            raise CannotMerge(
                self.file.path,
                item.line,
                f"{item.local} is both imported and defined here; give one of them another name",
            )
        if item.module in self.plain:
            meaning = self.plain[item.module].meaning(item.attribute or "")
            if not isinstance(meaning, Definition):
                raise CannotMerge(
                    self.file.path,
                    item.line,
                    f"{item.module}.py defines no {item.attribute}; import it from where it is",
                )
            self._meanings[item.local] = meaning
        elif isinstance(before, Import) and before.identity != item.identity:
            raise CannotMerge(
                self.file.path,
                item.line,
                f"{item.local} is imported twice with different meanings; use `as` for one of them",
            )
        else:
            self._meanings[item.local] = item

    def _drop_file_names(self) -> None:
        for definition in list(self.definitions):
            readers = (other for other in self.definitions if other is not definition)
            only_the_file_needs = definition.names and set(definition.names) <= FILE_NAMES
            if only_the_file_needs and not any(set(definition.names) & set(other.needs) for other in readers):
                self.definitions.remove(definition)


def drop_unneeded(plain: Iterable[Unit], variant: Unit) -> None:
    """Keep of the plain modules only what the variant needs, directly or not, and what defines no name."""
    waiting = list(variant.definitions)
    for unit in plain:
        waiting += [definition for definition in unit.definitions if not definition.names and definition.needs]
    kept: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in kept:
            kept.add(definition)
            meanings = (definition.unit.meaning(name) for name in definition.needs)
            waiting += [meaning for meaning in meanings if isinstance(meaning, Definition)]
    for unit in plain:
        unit.definitions = [definition for definition in unit.definitions if definition in kept]


def _grouped(parts: Iterable[Part]) -> list[tuple[Part, ...]]:
    """Parts that bind a name in common belong together; groups and their parts in source order."""
    groups: dict[Part, list[Part]] = {}
    group_of: dict[str, list[Part]] = {}
    order = {part: index for index, part in enumerate(parts)}
    for part in order:
        joined = [part]
        for earlier in {id(group_of[name]): group_of[name] for name in part.binds if name in group_of}.values():
            joined += earlier
            del groups[earlier[0]]
        joined.sort(key=order.__getitem__)
        groups[joined[0]] = joined
        for member in joined:
            group_of.update(dict.fromkeys(member.binds, joined))
    return [tuple(groups[first]) for first in sorted(groups, key=order.__getitem__)]


def plain_imports(file: SourceFile, modules: Mapping[str, Path], repository: Iterable[str]) -> dict[str, int]:
    """The modules of the variants folder that `file` imports from, with the line.

    Raises CannotMerge for an import of anything else of the repository.
    """
    found: dict[str, int] = {}
    for item in file.imports:
        if item.module.partition(".")[0] not in repository:
            continue
        if item.module not in modules or item.attribute is None:
            raise CannotMerge(
                file.path,
                item.line,
                f"the merged file cannot import {item.module}: the platform has only task.py beside it; put what it "
                "needs into a plain module of variants/ and write `from MODULE import NAME`",
            )
        found.setdefault(item.module, item.line)
    return found


def defines_entry(file: SourceFile) -> bool:
    """Whether a file has the platform's entry, which makes it a variant and no plain module."""
    return any(ENTRY in part.binds for part in file.parts) or any(item.local == ENTRY for item in file.imports)


def is_comment(part: Part) -> bool:
    """Whether a part holds comments and no code."""
    return isinstance(part.node, ast.Pass)
