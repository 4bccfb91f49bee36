"""Writes new winners into the text of a winners.toml, leaving its comments and order as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from harness.assembly.winners import TargetWinners, Winner, Winners, parse_winners
from harness.errors import BrokenWinners
from harness.problem.problem import Problem


def winner_line(label: str, winner: Winner) -> str:
    """The line of one shape, as it stands in winners.toml."""
    fields = [f"variant = {_quoted(winner.variant)}", f"why = {_quoted(winner.why)}"]
    if winner.record is not None:
        fields.append(f"record = {_quoted(winner.record)}")
    if winner.time_ns is not None:
        fields.append(f"time_ns = {json.dumps(winner.time_ns)}")
    return f'"{label}" = {{ {", ".join(fields)} }}'


def winner_lines(target: str, shapes: Mapping[str, Winner]) -> list[str]:
    """The lines to paste for a target's new winners, with their table's header."""
    return [f"[{target}.shapes]", *(winner_line(label, winner) for label, winner in shapes.items())]


def with_winners(text: str, winners: Winners, target: str, shapes: Mapping[str, Winner], problem: Problem) -> str:
    """The text of a winners.toml with new winners for some shapes of a target.

    text: what `winners` was read from. Only the lines of those shapes change; a shape that has none gets one at
    the end of its table. Raises BrokenWinners with the lines to paste where the file is laid out otherwise.
    """
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    headers = [number for number, line in enumerate(lines) if re.match(rf"\s*\[{re.escape(target)}\.shapes\]", line)]
    if headers:
        lines[headers[0] + 1 :] = _edited_table(lines[headers[0] + 1 :], shapes)
    else:
        lines += ["", *winner_lines(target, shapes)]
    edited = "\n".join(lines) + "\n"
    old = winners.of(target)
    wanted = TargetWinners(old.fallback, {**old.shapes, **shapes})
    try:
        read = parse_winners(edited, winners.path, problem)
    except BrokenWinners:
        read = None
    if read is None or read.targets != {**winners.targets, target: _in_order(wanted, problem)}:
        pasted = "; ".join(winner_lines(target, shapes))
        raise BrokenWinners(
            f"{winners.path}: cannot edit [{target}.shapes] as it is laid out; put in by hand: {pasted}"
        )
    return edited


def _edited_table(lines: list[str], shapes: Mapping[str, Winner]) -> list[str]:
    end = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1  # comments and blank lines before the next table belong to it
    table, rest = lines[:end], lines[end:]
    for label, winner in shapes.items():
        places = [n for n, line in enumerate(table) if re.match(rf"\s*[\"']{re.escape(label)}[\"']\s*=", line)]
        if places:
            table[places[0]] = winner_line(label, winner) + _trailing_comment(table[places[0]])
        else:
            table.append(winner_line(label, winner))
    return table + rest


def _trailing_comment(line: str) -> str:
    match = re.search(r"\}(\s*#.*)$", line)
    return match[1] if match else ""


def _in_order(winners: TargetWinners, problem: Problem) -> TargetWinners:
    labels = [shape.label for shape in problem.shapes if shape.label in winners.shapes]
    return TargetWinners(winners.fallback, {label: winners.shapes[label] for label in labels})


def _quoted(text: str) -> str:
    # TOML's basic strings take JSON's escapes.
    return json.dumps(text, ensure_ascii=False)
