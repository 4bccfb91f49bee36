"""A problem folder: its task, its named shapes, its reference and its variants."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from harness.errors import BrokenSubmission, BrokenTask, FileProblem, UnknownName
from harness.problem.case import Argument, Case
from harness.problem.task_file import TaskFile, read_task_file
from harness.problem.variant import Variant, read_variant


@dataclass(frozen=True)
class Shape:
    """One benchmark case's shape.

    name: S1, S2, … in the order of the benchmarks. label: the arguments that vary, such as `4x1024`.
    key: all arguments but the seed, in the task's order; the merged file dispatches on it.
    """

    name: str
    label: str
    key: tuple[Argument, ...]
    case: Case


@dataclass(frozen=True)
class Problem:
    """A folder in the platform's format; `root` is absolute."""

    root: Path
    task: TaskFile

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The benchmark cases by name; two cases with the same arguments but another seed share the first's."""
        cases = self.task.benchmarks or self.task.tests
        varying = _varying_arguments(cases)
        shapes: list[Shape] = []
        for case in cases:
            label = "x".join(str(case.arguments.get(name)) for name in varying)
            if all(shape.label != label for shape in shapes):
                key = tuple(case.shape_arguments.values())
                shapes.append(Shape(f"S{len(shapes) + 1}", label, key, case))
        return tuple(shapes)

    def shape(self, text: str) -> Shape:
        """The shape named S3 or 32x1024 (any case). Raises UnknownName with the nearest one."""
        for shape in self.shapes:
            if text.strip().lower() in (shape.name.lower(), shape.label.lower()):
                return shape
        accepted = [word for shape in self.shapes for word in (shape.name, shape.label)]
        raise UnknownName("shape", text, accepted)

    def select_shapes(self, text: str | None) -> tuple[Shape, ...]:
        """The shapes of a comma-separated list, or all of them for None or an empty list."""
        if not text:
            return self.shapes
        chosen = {self.shape(word).label for word in text.split(",") if word.strip() or not text.strip(" ,")}
        return tuple(shape for shape in self.shapes if shape.label in chosen)

    def shape_of(self, case: Case) -> Shape | None:
        """The named shape that a case has, or None for a shape that no benchmark has."""
        for shape in self.shapes:
            if shape.case.shape_arguments == case.shape_arguments:
                return shape
        return None

    @property
    def variants_folder(self) -> Path:
        """Where the candidates lie."""
        return self.root / "variants"

    def variant_paths(self) -> dict[str, Path]:
        """The candidates' files by name, sorted; plain modules without an entry are included."""
        return {path.stem: path for path in sorted(self.variants_folder.glob("*.py"))}

    def variant(self, name_or_path: str) -> Variant:
        """A candidate by its name or a file by its path. Raises FileProblem, BrokenSubmission or UnknownName."""
        path = Path(name_or_path)
        if path.suffix == ".py" or path.is_dir():
            return read_variant(path)
        if path.is_file():
            raise BrokenSubmission(f"{path}: not a Python file; the platform takes one file named *.py")
        paths = self.variant_paths()
        if name_or_path not in paths:
            raise UnknownName("variant", name_or_path, paths)
        return read_variant(paths[name_or_path])

    def load_module(self, name: str) -> ModuleType:
        """Import NAME.py of the problem folder (this process then trusts it; never use it for a submission).

        Raises FileProblem when there is no such file, BrokenTask when importing it fails.
        """
        path = self.task.files.get(f"{name}.py") or self.root / f"{name}.py"
        loaded = sys.modules.get(name)
        if loaded is not None and getattr(loaded, "__file__", None) == str(path):
            return loaded
        if not path.is_file():
            raise FileProblem.missing(path, f"the problem folder needs {name}.py")
        _make_room_for(self.root)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        _imported[name] = self.root
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            sys.modules.pop(name, None)
            raise BrokenTask(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
        return module


# What this process has imported by `load_module`, name → folder: problems name their modules alike.
_imported: dict[str, Path] = {}


def _make_room_for(root: Path) -> None:
    """Put `root` first on the path, and forget what was imported from other problem folders."""
    others = {folder for folder in _imported.values() if folder != root}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if _imported.get(name, root) != root or (file and Path(file).parent in others):
            del sys.modules[name]
            _imported.pop(name, None)
    for folder in map(str, others):
        while folder in sys.path:
            sys.path.remove(folder)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


def open_problem(root: Path) -> Problem:
    """Read the problem folder `root`. Raises FileProblem or BrokenTask."""
    root = root.resolve()
    if not root.is_dir():
        raise FileProblem(f"no such folder: {root}; a problem folder holds task.yml and reference.py")
    return Problem(root, read_task_file(root / "task.yml"))


def _varying_arguments(cases: Iterable[Case]) -> list[str]:
    """The names whose values differ between cases, in order; all of them where nothing differs."""
    cases = list(cases)
    names = list(dict.fromkeys(name for case in cases for name in case.shape_arguments))
    varying = [name for name in names if len({case.arguments.get(name) for case in cases}) > 1]
    return varying or names
