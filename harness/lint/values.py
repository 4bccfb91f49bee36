"""What the data-flow rules know of a value: the caller's input, something kept between calls, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True)
class Input:
    """The caller's data, a part of it, or a view or copy of that.

    path: the constant indices and attributes that lead to it; an index that is computed adds nothing.
    """

    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """Something that outlives the call: a part of the module-level name, default or closure variable `root`."""

    root: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pack:
    """A tuple, list or dictionary written out in the source: its items by constant index or key."""

    items: tuple[tuple[str, Values], ...]


Value = Input | Kept | Pack
Values = frozenset[Value]

# A value made in this call, or unknown: the rules have nothing to say of it.
FRESH: Values = frozenset()


def part(values: Values, key: str | None) -> Values:
    """The item or attribute `key` of each value; None stands for a computed index or a slice."""
    found: set[Value] = set()
    for value in values:
        if isinstance(value, Pack):
            items = dict(value.items)
            if key in items:
                found |= items[key]
            elif key is None:
                found.update(*items.values())
        elif key is None:
            found.add(value)
        elif isinstance(value, Input):
            found.add(Input((*value.path, key)))
        else:
            found.add(Kept(value.root, (*value.path, key)))
    return frozenset(found)


def leaves(values: Iterable[Value]) -> Iterator[Input | Kept]:
    """The inputs and kept values in these, packs opened."""
    for value in values:
        if isinstance(value, Pack):
            for _, inner in value.items:
                yield from leaves(inner)
        else:
            yield value


def overlaps(one: Input | Kept, other: Input | Kept) -> bool:
    """Whether one is the other or a part of it."""
    if type(one) is not type(other) or getattr(one, "root", None) != getattr(other, "root", None):
        return False
    shorter = min(len(one.path), len(other.path))
    return one.path[:shorter] == other.path[:shorter]


@dataclass
class State:
    """What holds at one point of a function.

    names: of local variables. stored: what this call put into a kept place. may_write, must_write: values handed to
    code that could write into them, on some way and on every way to this point.
    """

    names: dict[str, Values] = field(default_factory=dict)
    stored: dict[Kept, Values] = field(default_factory=dict)
    may_write: frozenset[Input | Kept] = frozenset()
    must_write: frozenset[Input | Kept] = frozenset()

    def copy(self) -> State:
        """An independent state, for a branch."""
        return State(dict(self.names), dict(self.stored), self.may_write, self.must_write)

    def write(self, values: Values) -> None:
        """Note that code got these values that could write into them."""
        touched = frozenset(leaves(values))
        self.may_write |= touched
        self.must_write |= touched

    def kept(self, place: Kept) -> Values:
        """What reading a kept place gives: what this call stored there, else something from before."""
        return self.stored.get(place, frozenset({place}))


def joined(states: Iterable[State]) -> State | None:
    """What holds where several ways meet; None where none arrives."""
    arriving = list(states)
    if not arriving:
        return None
    result = arriving[0].copy()
    for state in arriving[1:]:
        result.names = _union(result.names, state.names, lambda _: FRESH)
        result.stored = _union(result.stored, state.stored, lambda place: frozenset({place}))
        result.may_write |= state.may_write
        result.must_write &= state.must_write
    return result


Key = TypeVar("Key", str, Kept)


def _union(one: dict[Key, Values], other: dict[Key, Values], missing: Callable[[Key], Values]) -> dict[Key, Values]:
    return {key: one.get(key, missing(key)) | other.get(key, missing(key)) for key in dict.fromkeys([*one, *other])}
