"""What a submission file says of itself, read from its source without running it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import BrokenSubmission, FileProblem

ENTRY = "custom_kernel"


@dataclass(frozen=True)
class Variant:
    """A submission file and its literal `VARIANT` dictionary (empty where it has none).

    A merged file's `VARIANT["shapes"]` maps each shape label to its own declaration, and `"fallback"`
    declares the rest; a single variant's is a list of labels, or "any".
    """

    path: Path
    source: str
    declared: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The file's name without `.py`, as winners.toml and the command line use it."""
        return self.path.stem

    @cached_property
    def source_hash(self) -> str:
        """SHA-256 of the source text: records belong to it, never to the file's name."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def is_merged(self) -> bool:
        """True for a file that declares each shape apart."""
        return isinstance(self.declared.get("shapes"), Mapping)

    @property
    def shapes(self) -> tuple[str, ...] | None:
        """The labels it is for, or None for any shape."""
        shapes = self.declared.get("shapes", "any")
        return None if shapes == "any" or self.is_merged else tuple(shapes)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets it is for; empty where nothing is declared."""
        return tuple(self.declared.get("targets", ()))

    def takes(self, label: str) -> bool:
        """Whether the file says that it takes the shape with this label."""
        return self.shapes is None or label in self.shapes

    def declaration(self, label: str | None) -> Mapping[str, Any]:
        """What the file declares for one shape (None: a shape that has no label of its own)."""
        if not self.is_merged:
            return self.declared
        return self.declared["shapes"].get(label) or self.declared.get("fallback", {})


def read_variant(path: Path) -> Variant:
    """Read `path` as it is (CRLF, a byte-order mark and a missing final newline are fine).

    Raises FileProblem when it cannot be read, BrokenSubmission for a syntax error, a file without a
    module-level `custom_kernel`, or a `VARIANT` that is not a literal dictionary.
    """
    source = read_source(path)
    tree = parse_source(source, path)
    if not defines(tree, ENTRY):
        raise BrokenSubmission(f"{path}: defines no {ENTRY}(data) at module level")
    return Variant(path, source, read_declared(tree, path))


def read_source(path: Path) -> str:
    """The text of a Python file, with LF line ends. Raises FileProblem or BrokenSubmission."""
    if path.is_dir():
        raise FileProblem(f"{path} is a folder; expected a Python file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileProblem.missing(path) from None
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BrokenSubmission(f"{path}:{line}: not UTF-8 text (the platform takes UTF-8 only)") from None


def parse_source(source: str, path: Path) -> ast.Module:
    """The syntax tree of a submission. Raises BrokenSubmission with the line of a syntax error."""
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise BrokenSubmission(f"{path}:{error.lineno or 1}: syntax error: {error.msg}") from None
    except ValueError as error:
        raise BrokenSubmission(f"{path}:1: not Python source: {error}") from None
    except (RecursionError, MemoryError):
        raise BrokenSubmission(f"{path}:1: not Python source: nested too deeply for the parser") from None


def defines(tree: ast.Module, name: str) -> bool:
    """Whether a module binds `name` at its top level, by definition, assignment or import."""
    return any(_binds(node, name) for node in _top_level(tree))


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run at import, those inside if, try, with and loops included."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            waiting += [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
            waiting += [inner for handler in getattr(node, "handlers", ()) for inner in handler.body]


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) == name for alias in node.names)
    inside = (inner for target in _targets(node) for inner in ast.walk(target))
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in inside)


def _targets(node: ast.stmt) -> list[ast.expr]:
    """What an assignment or a loop binds; a bare annotation binds nothing."""
    if isinstance(node, ast.Assign):
        return node.targets
    is_bound = isinstance(node, ast.For) or (isinstance(node, ast.AnnAssign) and node.value is not None)
    return [node.target] if is_bound else []


def read_declared(tree: ast.Module, path: Path) -> Mapping[str, Any]:
    """The literal `VARIANT` of a module, {} where it has none. Raises BrokenSubmission when it is not literal."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _binds(node, "VARIANT"):
            continue
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError):
            value = None
        if not isinstance(value, dict):
            raise BrokenSubmission(f"{path}:{node.lineno}: VARIANT must be a literal dictionary")
        _check_declared(value, path, node.lineno)
        return value
    return {}


def _check_declared(value: dict[str, Any], path: Path, line: int) -> None:
    shapes = value.get("shapes", "any")
    is_list = isinstance(shapes, list | tuple) and all(isinstance(label, str) for label in shapes)
    if shapes != "any" and not is_list and not isinstance(shapes, dict):
        raise BrokenSubmission(
            f"{path}:{line}: VARIANT['shapes'] must be a list of labels such as '4x1024', or 'any', not {shapes!r}"
        )
    parts = {f"['shapes'][{label!r}]": part for label, part in shapes.items()} if isinstance(shapes, dict) else {}
    for name, part in {**parts, "['fallback']": value.get("fallback", {})}.items():
        if not isinstance(part, dict):
            raise BrokenSubmission(f"{path}:{line}: VARIANT{name} must be a dictionary, not {part!r}")
    targets = value.get("targets", [])
    if not isinstance(targets, list | tuple) or not all(isinstance(target, str) for target in targets):
        raise BrokenSubmission(f"{path}:{line}: VARIANT['targets'] must be a list of names, not {targets!r}")
