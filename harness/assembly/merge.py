"""From winners to one file: read, refuse, find what is alike, name, write.

Scope questions are answered on `ast` (harness.assembly.scopes), texts are cut from the source as they stand, and
LibCST rewrites only the statements in which a name changes: so comments and layout stay, and a merge of six files
takes a fraction of the second that LibCST's own scope analysis would.
"""

from __future__ import annotations

import base64
import gc
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from harness.assembly.library import Library
from harness.assembly.merged_file import merged_source
from harness.assembly.rewrite_cache import RewriteCache
from harness.assembly.winners import TargetWinners, Winner, Winners
from harness.errors import BrokenWinners, CannotMerge
from harness.problem.problem import Problem
from harness.problem.variant import Variant

# The platform's limit for a submission file. Source: gpu-mode/kernelbot (2026).
MAX_BYTES = 1_000_000
# Beside the problem, ignored by git; safe to delete at any time.
_CACHE_FOLDER = ".harness"


@dataclass(frozen=True)
class Assembly:
    """A merged file. shapes: label → winner; fallback: the variant of all other shapes.

    bytes: the size of the source in UTF-8. packed_bytes: the size after zlib and base64, as the platform sends it.
    """

    source: str
    target: str
    shapes: Mapping[str, Winner]
    fallback: str
    bytes: int
    packed_bytes: int


def assemble(problem: Problem, target: str, winners: Winners, edited: Mapping[str, str] | None = None) -> Assembly:
    """Merge the winners of `target` into one file. The same inputs give the same bytes.

    edited: variants' sources, by name, to merge instead of what their files hold.
    Raises CannotMerge with file, line and reason where the merged file could mean something else than its parts;
    BrokenWinners where a winner is not for its shape or target; BrokenSubmission or FileProblem for a variant
    that cannot be read; UnknownName for a target that does not exist.
    """
    with _without_garbage_collection():
        held = winners.of(target)
        library = Library(problem, edited)
        variants = {name: library.variant(name) for name in _winning_names(held)}
        _check_places(winners, target, held, variants)
        groups = {name: library.units_for_variant(variant.path) for name, variant in variants.items()}
        cache = RewriteCache(problem.root / _CACHE_FOLDER / f"renamed_{target}.json")
        source = merged_source(winners, target, problem, variants, groups, library.units_for_dispatch(), cache)
        cache.save()
    data = source.encode()
    if len(data) > MAX_BYTES:
        raise CannotMerge(
            winners.path, None, f"the merged file has {len(data):,} bytes; the platform takes {MAX_BYTES:,}"
        )
    packed = base64.b64encode(zlib.compress(data))
    return Assembly(source, target, held.shapes, held.fallback, len(data), len(packed))


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # Syntax trees are many small objects and no garbage: collecting costs half of the time here.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _winning_names(held: TargetWinners) -> list[str]:
    """The winning variants, in the order of the shapes they hold, the fallback last."""
    names = dict.fromkeys(winner.variant for winner in held.shapes.values() if winner.variant != held.fallback)
    return [*names, held.fallback]


def _check_places(winners: Winners, target: str, held: TargetWinners, variants: Mapping[str, Variant]) -> None:
    for variant in variants.values():
        if variant.is_merged:
            raise BrokenWinners(
                f"{winners.path}: {variant.name} is a merged file itself; name the variants it is made of"
            )
        if variant.targets and not {target, "portable"} & set(variant.targets):
            raise BrokenWinners(
                f"{winners.path}: {variant.name} is for {', '.join(variant.targets)}, not for {target} "
                "(its VARIANT says so)"
            )
    for label, winner in held.shapes.items():
        variant = variants[winner.variant]
        if not variant.takes(label):
            taken = ", ".join(variant.shapes or ())
            raise BrokenWinners(f"{winners.path}: {variant.name} is for {taken}, not for {label} (its VARIANT says so)")
    if variants[held.fallback].shapes is not None:
        taken = ", ".join(variants[held.fallback].shapes or ())
        raise BrokenWinners(
            f"{winners.path}: the fallback {held.fallback} is for {taken} only; a fallback takes any shape"
        )
