"""Gives the module's names in a statement their new spelling, and leaves locals, keywords and text alone."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping

from harness.assembly.fragments import Fragment, ParsedAlone, fragments
from harness.assembly.rewrite_cache import RewriteCache
from harness.assembly.scopes import Occurrence, occurrences
from harness.assembly.source_file import Part
from harness.errors import CannotMerge


def renamed_text(part: Part, changes: Mapping[str, str], cache: RewriteCache) -> str:
    """The text of `part` with the module's names changed, locals and keywords of the same spelling left alone.

    The statement's own scope analysis (`part.occurrences`) says, in source order, which identifiers are the
    module's; LibCST meets the same identifiers in the same order. The result is analysed again: it must use
    exactly the new names. Raises CannotMerge where it does not, or where a name cannot be changed.
    """
    _refuse_unclear(part, changes)
    touched = [found for found in part.occurrences if found.name in changes]
    lines = part.text.split("\n")
    for fragment in _fragments(part, {found.line for found in touched if found.reach == "module"}):
        inside = [found for found in touched if fragment.first <= found.line <= fragment.last]
        place = slice(fragment.first - part.first_line, fragment.last - part.first_line + 1)
        # A name never spans lines: the fragment has as many as before.
        text = _renamed_fragment(part, fragment, "\n".join(lines[place]), inside, changes, cache)
        lines[place] = text.split("\n")
    text = "\n".join(lines)
    _check(part, changes, text)
    return text


def _fragments(part: Part, lines: set[int]) -> list[Fragment]:
    if part.shares_line:
        return [Fragment(part.first_line, part.first_line + part.text.count("\n"))]
    return fragments(part.node, lines)


def _renamed_fragment(
    part: Part,
    fragment: Fragment,
    text: str,
    inside: Iterable[Occurrence],
    changes: Mapping[str, str],
    cache: RewriteCache,
) -> str:
    alone = ParsedAlone(text, fragment.is_header)
    decisions: dict[str, list[bool]] = {}
    for found in inside:
        decisions.setdefault(found.name, []).append(found.reach == "module")
    wanted = {name: changes[name] for name in sorted(decisions)}
    return alone.text(cache.rewritten(alone.source, wanted, decisions, (part.path, fragment.first)))


def _refuse_unclear(part: Part, changes: Mapping[str, str]) -> None:
    for found in part.occurrences:
        if found.reach == "class" and found.name in changes:
            raise CannotMerge(
                part.path,
                found.line,
                f"a class body both reads the global {found.name} and binds it; give one of them another name",
            )


def _check(part: Part, changes: Mapping[str, str], text: str) -> None:
    """The new text must use the module's names as the old one did, each under its new name, and no other."""
    wanted = Counter(
        changes.get(found.name, found.name) if found.reach == "module" else f"local {found.name}"
        for found in part.occurrences
    )
    after = (found for statement in ast.parse(text).body for found in occurrences(statement))
    if wanted != Counter(found.name if found.reach == "module" else f"local {found.name}" for found in after):
        listed = ", ".join(sorted(changes))
        raise CannotMerge(part.path, part.line, f"cannot tell which uses of {listed} are the module's; rename it")
