"""The plain imports of a file, and the one import block of the merged file."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.assembly.scopes import bound_by_import
from harness.errors import CannotMerge

LINE_LENGTH = 120
# What the platform puts beside a submission; its imports stand last.
PLATFORM_MODULE = "task"


@dataclass(frozen=True)
class Import:
    """One clause of a module-level import.

    local: the name that it binds. attribute: the name taken from the module, None for `import module`.
    renamed: it has an `as`. type_only: it stands under `if TYPE_CHECKING:`.
    """

    local: str
    module: str
    attribute: str | None
    renamed: bool
    line: int
    comment: str = ""
    type_only: bool = False

    @property
    def identity(self) -> tuple[str, str | None]:
        """What the local name means; `import a.b` means `a`."""
        if self.attribute is None and not self.renamed:
            return (self.local, None)
        return (self.module, self.attribute)

    def bound_to(self, local: str) -> Import:
        """The same import under another local name."""
        return self if local == self.local else replace(self, local=local, renamed=True)


def imports_of(node: ast.stmt, text: str, path: Path) -> list[Import] | None:
    """The clauses of a plain import or of an `if TYPE_CHECKING:` block of imports; None for any other statement.

    Raises CannotMerge for a star import and a relative one.
    """
    if isinstance(node, ast.If) and not node.orelse and _is_type_checking(node.test):
        clauses = [imports_of(inner, "", path) for inner in node.body]
        if any(clause is None for clause in clauses):
            return None
        found = [replace(clause, type_only=True) for inner in clauses for clause in inner]
        return [replace(found[0], comment=_comments(text)), *found[1:]]
    if isinstance(node, ast.Import):
        comment = _comments(text)
        return [
            Import(bound_by_import(alias), alias.name, None, alias.asname is not None, node.lineno, comment)
            for alias in node.names
        ]
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        check_from_import(node, path)
        comment = _comments(text)
        return [
            Import(bound_by_import(alias), node.module, alias.name, alias.asname is not None, node.lineno, comment)
            for alias in node.names
        ]
    return None


def check_from_import(node: ast.ImportFrom, path: Path) -> None:
    """Raises CannotMerge for a star import and a relative one."""
    if node.level:
        raise CannotMerge(
            path, node.lineno, "a relative import means another module in the merged file; name it in full"
        )
    if any(alias.name == "*" for alias in node.names):
        raise CannotMerge(
            path, node.lineno, f"`from {node.module} import *` hides which names it binds; list the names it needs"
        )


def import_block(future: Iterable[str], imports: Iterable[Import]) -> str:
    """The merged file's imports: `__future__` first, then sorted, the platform's last, type-only ones below."""
    imports = list(imports)
    running = {(item.local, item.identity) for item in imports if not item.type_only}
    type_only = [item for item in imports if item.type_only and (item.local, item.identity) not in running]
    always = [item for item in imports if not item.type_only]
    platform = [item for item in always if item.module == PLATFORM_MODULE]
    others = [item for item in always if item.module != PLATFORM_MODULE]
    blocks = [_lines(others), _lines(platform)]
    if future := sorted(future):
        blocks.insert(0, [f"from __future__ import {', '.join(future)}"])
    if type_only:
        blocks.append(["if TYPE_CHECKING:", *(f"    {line}" for line in _lines(type_only))])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _lines(imports: Iterable[Import]) -> list[str]:
    """`import` lines, then one `from` statement a module, each sorted as ruff sorts them."""
    modules: dict[str, set[str]] = {}
    froms: dict[str, set[str]] = {}
    comments: dict[tuple[str, str], dict[str, None]] = {}
    for item in imports:
        name = item.module if item.attribute is None else item.attribute
        clause = f"{name} as {item.local}" if item.renamed else name
        kind, module = ("import", clause) if item.attribute is None else ("from", item.module)
        (modules if kind == "import" else froms).setdefault(module, set()).add(clause)
        if item.comment:
            comments.setdefault((kind, module), {})[item.comment] = None
    lines: list[str] = []
    for clause in sorted(modules):
        lines.append(_with_comments(f"import {clause}", comments.get(("import", clause), ())))
    for module in sorted(froms):
        statement = _from_statement(module, sorted(froms[module], key=_member_order))
        lines += _with_comments(statement, comments.get(("from", module), ())).split("\n")
    return lines


def _member_order(clause: str) -> tuple[int, str]:
    # Constants, then classes, then the rest.
    name = clause.split(" ")[0]
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, clause)


def _from_statement(module: str, clauses: list[str]) -> str:
    line = f"from {module} import {', '.join(clauses)}"
    if len(line) <= LINE_LENGTH - len("    "):
        return line
    return "\n".join([f"from {module} import (", *(f"    {clause}," for clause in clauses), ")"])


def _with_comments(statement: str, comments: Iterable[str]) -> str:
    return "  ".join([statement, *comments])


def _comments(text: str) -> str:
    """The comments inside an import statement and behind it, as one."""
    if "#" not in text:
        return ""
    tokens = tokenize.generate_tokens(io.StringIO(text + "\n").readline)
    return "  ".join(token.string for token in tokens if token.type == tokenize.COMMENT)


def _is_type_checking(test: ast.expr) -> bool:
    if isinstance(test, ast.Attribute):
        return test.attr == "TYPE_CHECKING" and isinstance(test.value, ast.Name) and test.value.id == "typing"
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
