"""winners.toml: which variant holds which shape on which target, and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BrokenWinners, UnknownName
from harness.problem.problem import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TARGETS = ("gfx950", "sm_90", "portable")
_PLATFORM_KEYS = ("leaderboard", "gpu")
_TARGET_KEYS = ("fallback", "shapes")
_WINNER_KEYS = ("variant", "why", "record", "time_ns")


@dataclass(frozen=True)
class Winner:
    """The variant of one shape. record: the id of the measurement behind it; time_ns: its mean, in nanoseconds."""

    variant: str
    why: str
    record: str | None = None
    time_ns: float | None = None


@dataclass(frozen=True)
class TargetWinners:
    """One target's winners. shapes: label → winner, in the problem's order; fallback: the variant of the rest."""

    fallback: str
    shapes: Mapping[str, Winner]


@dataclass(frozen=True)
class Winners:
    """The whole file. leaderboard, gpu: what the directives at the top of a merged file name."""

    path: Path
    leaderboard: str
    gpu: str
    targets: Mapping[str, TargetWinners]

    def of(self, target: str) -> TargetWinners:
        """The winners of a target. Raises UnknownName for no target, BrokenWinners for one without winners."""
        if target not in TARGETS:
            raise UnknownName("target", target, TARGETS)
        if target not in self.targets:
            listed = ", ".join(self.targets) or "none"
            raise BrokenWinners(
                f"{self.path}: no winners for target {target} (there are: {listed}); add a table [{target}]"
            )
        return self.targets[target]

    def places_of(self, variant: str) -> list[str]:
        """Where a variant wins, such as `gfx950 4x1024` or `gfx950 fallback`."""
        places = []
        for target, winners in self.targets.items():
            places += [f"{target} {label}" for label, winner in winners.shapes.items() if winner.variant == variant]
            if winners.fallback == variant:
                places.append(f"{target} fallback")
        return places


def read_winners(path: Path, problem: Problem) -> Winners:
    """Read winners.toml at `path`.

    Raises BrokenWinners when it is missing, unreadable, no TOML (with the line) or lacks something; UnknownName
    with the nearest accepted name for a key, target, shape or variant that does not exist (with the line).
    """
    shown = path.relative_to(problem.root) if path.is_relative_to(problem.root) else path
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BrokenWinners(f"no such file: {shown}; it names the winning variant of each target and shape") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenWinners(f"{shown}: cannot be read: {error}") from None
    return parse_winners(text, shown, problem)


def parse_winners(text: str, shown: Path, problem: Problem) -> Winners:
    """The winners in the text of a winners.toml; `shown` names it in messages. Raises as `read_winners`."""
    try:
        raw = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{shown}:{line[1]}" if line else f"{shown}:{text.count(chr(10)) + 1}"
        raise BrokenWinners(f"{where}: not valid TOML: {str(error).split(' (at ')[0]}") from None
    return _Reader(text, shown, problem).winners(raw)


class _Reader:
    def __init__(self, text: str, shown: Path, problem: Problem) -> None:
        self._lines = text.split("\n")
        self._shown = shown
        self._shapes = [shape.label for shape in problem.shapes]
        self._variants = list(problem.variant_paths())

    def winners(self, raw: dict[str, Any]) -> Winners:
        self._known("table", raw, ("platform", *TARGETS), None)
        platform = self._table(raw.get("platform"), "platform")
        self._known("key", platform, _PLATFORM_KEYS, "platform")
        leaderboard, gpu = (self._text(platform, key, "platform") for key in _PLATFORM_KEYS)
        for key, value in (("leaderboard", leaderboard), ("gpu", gpu)):
            if len(value.split()) != 1:
                raise self._broken(
                    f"{key} = '{value}': expected one word, for the platform's directive", key, "platform"
                )
        targets = {target: self._target(target, raw[target]) for target in TARGETS if target in raw}
        return Winners(self._shown, leaderboard, gpu, targets)

    def _target(self, target: str, raw: Any) -> TargetWinners:
        table = self._table(raw, target)
        self._known("key", table, _TARGET_KEYS, target)
        fallback = self._text(table, "fallback", target)
        self._known_variant(fallback, "fallback", target)
        section = f"{target}.shapes"
        shapes = self._table(table.get("shapes", {}), section)
        self._known("shape", shapes, self._shapes, section)
        in_order = [label for label in self._shapes if label in shapes]
        return TargetWinners(fallback, {label: self._winner(label, shapes[label], section) for label in in_order})

    def _winner(self, label: str, raw: Any, section: str) -> Winner:
        if not isinstance(raw, dict):
            raise self._broken(
                f'"{label}" must be a table such as {{ variant = "…", why = "…" }}, not {raw!r}', label, section
            )
        for key in raw:
            if key not in _WINNER_KEYS:
                raise UnknownName(f'key of "{label}" in {self._at(label, section)}', key, _WINNER_KEYS)
        for key in ("variant", "why"):
            if key not in raw:
                raise self._broken(f'"{label}" has no {key}', label, section)
        for key in ("variant", "why", "record"):
            if key in raw and not (isinstance(raw[key], str) and raw[key].isprintable() and raw[key].strip()):
                raise self._broken(f'{key} of "{label}" must be one line of text, not {raw[key]!r}', label, section)
        time_ns = raw.get("time_ns")
        if time_ns is not None and (
            isinstance(time_ns, bool) or not isinstance(time_ns, int | float) or not time_ns > 0
        ):
            raise self._broken(f'time_ns of "{label}" must be a positive number, not {time_ns!r}', label, section)
        self._known_variant(raw["variant"], label, section)
        return Winner(raw["variant"], raw["why"], raw.get("record"), time_ns)

    def _known_variant(self, name: str, key: str, section: str) -> None:
        if name not in self._variants:
            raise UnknownName(f"variant in {self._at(key, section)}", name, self._variants)

    def _known(self, kind: str, table: Mapping[str, Any], accepted: Iterable[str], section: str | None) -> None:
        accepted = list(accepted)
        for key in table:
            if key not in accepted:
                raise UnknownName(f"{kind} in {self._at(key, section)}", key, accepted)

    def _table(self, raw: Any, name: str) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise BrokenWinners(f"{self._shown}: expected a table [{name}]")
        return raw

    def _text(self, table: Mapping[str, Any], key: str, section: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._broken(f'[{section}] needs {key} = "…"', key if key in table else "", section)
        return value

    def _broken(self, reason: str, key: str, section: str) -> BrokenWinners:
        return BrokenWinners(f"{self._at(key, section)}: {reason}")

    def _at(self, key: str, section: str | None) -> str:
        """`FILE:LINE` of a key in a section, or of the section, as well as plain text can tell."""
        line = None
        current: str | None = None
        for number, text in enumerate(self._lines, 1):
            header = re.match(r"\s*\[([^\[\]]+)\]", text)
            if header:
                current = header[1].strip()
                if current == section or (section is None and current.split(".")[0] == key):
                    line = number
            elif key and current == section and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", text):
                return f"{self._shown}:{number}"
        return f"{self._shown}:{line}" if line else str(self._shown)
