"""The files that a merge reads, each read and looked through once, and their units."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from pathlib import Path

from harness.assembly import dispatch
from harness.assembly.definitions import Definition, Unit, defines_entry, drop_unneeded, plain_imports
from harness.assembly.import_effects import refuse_import_effects
from harness.assembly.imports import PLATFORM_MODULE
from harness.assembly.refusals import refuse_what_cannot_be_merged
from harness.assembly.source_file import SourceFile, read_source_file
from harness.errors import BrokenSubmission, CannotMerge
from harness.problem.problem import Problem
from harness.problem.variant import ENTRY, Variant, read_declared, read_source


class Library:
    """The files of a problem, each read once. edited: variants' sources to take instead of what their files hold."""

    def __init__(self, problem: Problem, edited: Mapping[str, str] | None = None) -> None:
        self._edited = edited or {}
        self._root = problem.root
        self._modules = problem.variant_paths()
        at_root = [path.stem for path in problem.root.glob("*.py") if path.stem != PLATFORM_MODULE]
        packages = [path.parent.name for path in problem.root.glob("*/__init__.py")]
        self._repository = {*self._modules, *at_root, *packages}
        self._files: dict[Path, SourceFile] = {}
        self._sources: dict[Path, str] = {}

    def variant(self, name: str) -> Variant:
        """A variant by its name. Raises BrokenSubmission where it is none or declares itself wrongly."""
        path = self._modules[name]
        file = self._file(path)
        if not defines_entry(file):
            raise BrokenSubmission(f"{file.path}: defines no {ENTRY}(data) at module level")
        return Variant(path, self._sources[path], read_declared(file.tree, file.path))

    def units_for_variant(self, path: Path) -> list[Unit]:
        """The units of one variant: the plain modules that it needs, then itself."""
        owner = path.stem
        if not owner.isidentifier() or keyword.iskeyword(owner):
            raise CannotMerge(path.name, None, f"'{owner}' cannot become a part of Python names; rename the file")
        plain: dict[str, Unit] = {}
        variant = self._unit(owner, path, plain, [])
        drop_unneeded(plain.values(), variant)
        return [*plain.values(), variant]

    def units_for_dispatch(self) -> list[Unit]:
        """The units of the module that the merged file chooses by. Raises CannotMerge when there is none."""
        path = self._modules.get(dispatch.MODULE)
        if path is None:
            raise CannotMerge(
                f"variants/{dispatch.MODULE}.py",
                None,
                f"no such file; the merged file chooses by its {dispatch.SHAPE_KEY}(data)",
            )
        plain: dict[str, Unit] = {}
        unit = self._unit(dispatch.MODULE, path, plain, [])
        if not isinstance(unit.meaning(dispatch.SHAPE_KEY), Definition):
            raise CannotMerge(
                unit.file.path, None, f"defines no {dispatch.SHAPE_KEY}(data), by which the merged file chooses"
            )
        return [*plain.values(), unit]

    def _unit(self, owner: str, path: Path, plain: dict[str, Unit], asking: list[Path]) -> Unit:
        file = self._file(path)
        inner: dict[str, Unit] = {}
        for name, line in plain_imports(file, self._modules, self._repository).items():
            target = self._modules[name]
            if target in (path, *asking):
                raise CannotMerge(
                    file.path, line, f"{name} and {file.name} import each other; move what both need to a third"
                )
            if name not in plain:
                if defines_entry(self._file(target)):
                    raise CannotMerge(
                        file.path,
                        line,
                        f"{name} is a variant itself; move what both need into a plain module of variants/",
                    )
                plain[name] = self._unit(owner, target, plain, [*asking, path])
            inner[name] = plain[name]
        return Unit(owner, file, inner)

    def _file(self, path: Path) -> SourceFile:
        if path not in self._files:
            edited = self._edited.get(path.stem) if path in self._modules.values() else None
            source = self._sources[path] = read_source(path) if edited is None else edited
            file = read_source_file(source, path.relative_to(self._root))
            refuse_what_cannot_be_merged(file, source, self._repository)
            refuse_import_effects(file)
            self._files[path] = file
        return self._files[path]
