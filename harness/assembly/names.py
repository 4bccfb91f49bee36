"""The names of the merged file: each keeps its own, and gets its variant's as a prefix only where two collide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.assembly.definitions import Definition, Unit
from harness.assembly.imports import Import
from harness.assembly.source_file import Part
from harness.errors import CannotMerge
from harness.problem.variant import ENTRY


@dataclass(frozen=True)
class Names:
    """What everything is called in the merged file.

    classes: see `classes_of`. definitions: (class, name) → final name. imports: (local name, identity) → final name.
    """

    classes: dict[Definition, int]
    definitions: dict[tuple[int, str], str]
    imports: dict[tuple[str, tuple[str, str | None]], str]

    def of(self, unit: Unit, name: str) -> str:
        """The final name of what `name` means at module level in `unit`."""
        meaning = unit.meaning(name)
        if isinstance(meaning, Definition):
            return self.definitions[self.classes[meaning], _own_name(unit, name, meaning)]
        if isinstance(meaning, Import):
            return self.imports[meaning.local, meaning.identity]
        return name

    def changes(self, unit: Unit, part: Part) -> dict[str, str]:
        """Name in the source of `part` → final name, where the two differ."""
        finals = {name: self.of(unit, name) for name in part.needs | part.binds}
        return {name: final for name, final in finals.items() if name != final}


def _own_name(unit: Unit, name: str, meaning: Definition) -> str:
    if meaning.unit is unit:
        return name
    # Imported from a plain module, perhaps under another name.
    item = next(item for item in unit.file.imports if item.local == name)
    inner = unit.plain[item.module]
    return _own_name(inner, item.attribute or "", meaning)


def entry_name(owner: str) -> str:
    """The private function that a variant's entry becomes."""
    return f"_{owner}"


def choose_names(units: Iterable[Unit], classes: dict[Definition, int], generated: Iterable[str]) -> Names:
    """Give every definition and import its name.

    generated: names that the merged file itself defines. A name that two different definitions want goes to
    neither: both get their variant's prefix. An import keeps its name unless another import wants it.
    Raises CannotMerge where a name has to change and cannot.
    """
    units = list(units)
    reserved = set(generated) | _builtins_used(units)
    spellings = {found.name for unit in units for part in unit.file.parts for found in part.occurrences}
    taken = spellings | reserved
    wanted = _wanted(units, classes)
    names = Names(classes, {}, {})
    for key, (owner, _, _) in wanted.get(ENTRY, {}).items():
        if not isinstance(key, tuple):
            names.definitions[key, ENTRY] = _free(entry_name(owner), taken)
    for name, claimants in wanted.items():
        imports = [key for key in claimants if isinstance(key, tuple)]
        crowded = len(claimants) > 1 or name in reserved
        import_keeps = len(imports) == 1 and name not in reserved
        for key, (owner, unit, line) in claimants.items():
            if isinstance(key, tuple):
                final = name if import_keeps else _free(_prefixed(owner, name), taken)
                if final != name and _is_dotted(unit, name):
                    raise CannotMerge(
                        unit.file.path, line, f"`{name}` also means another import elsewhere; import it with `as`"
                    )
                names.imports[name, key] = final
            elif name != ENTRY:
                names.definitions[key, name] = _free(_prefixed(owner, name), taken) if crowded else name
    return names


def _wanted(units: list[Unit], classes: dict[Definition, int]) -> dict[str, dict]:
    """Name → who wants it (a class, or an import's identity) → the first holder's variant, unit and line."""
    wanted: dict[str, dict] = {}
    for unit in units:
        for definition in unit.definitions:
            for name in definition.names:
                holder = (unit.owner, unit, definition.parts[0].line)
                wanted.setdefault(name, {}).setdefault(classes[definition], holder)
        for item in unit.outside_imports:
            wanted.setdefault(item.local, {}).setdefault(item.identity, (unit.owner, unit, item.line))
    return wanted


def _builtins_used(units: Iterable[Unit]) -> set[str]:
    """Names that some file takes from outside of its source: no other file's definition may catch them."""
    return {
        name
        for unit in units
        for definition in unit.definitions
        for name in definition.needs
        if unit.meaning(name) is None
    }


def _is_dotted(unit: Unit, name: str) -> bool:
    return any(
        "." in item.module
        for item in unit.file.imports
        if item.local == name and not item.renamed and item.attribute is None
    )


def _prefixed(owner: str, name: str) -> str:
    return f"_{owner}{name}" if name.startswith("_") else f"{owner}_{name}"


def _free(name: str, taken: set[str]) -> str:
    """`name`, or the first of name_2, name_3, … that no file uses; taken from now on."""
    choice, number = name, 2
    while choice in taken:
        choice, number = f"{name}_{number}", number + 1
    taken.add(choice)
    return choice
