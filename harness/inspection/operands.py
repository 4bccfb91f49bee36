"""The operand text of an AMDGCN instruction, as LLVM prints it, taken apart into arguments and modifiers."""

from __future__ import annotations

import re

_WORD = re.compile(r"^(\w+)(?::(.+))?$")
_COUNTER = re.compile(r"^(\w+cnt)\((\w+)\)$")


def split_operands(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments in their order, and modifiers by name with the text of their value, '' for a flag.

    'v[0:3], v4, s[0:3], 0 offen offset:16' gives ('v[0:3]', 'v4', 's[0:3]', '0') and {'offen': '', 'offset': '16'};
    the counters of s_waitcnt are modifiers too. Raises ValueError for text of another form: what is not understood must
    not be passed over, since a modifier ignored in silence is a wrong result.
    """
    arguments: list[str] = []
    modifiers: dict[str, str] = {}
    pieces = _split(text, ",")
    for place, piece in enumerate(pieces):
        words = [word for word in _split(piece, " ") if word]
        if not words:
            raise ValueError(f"an operand is missing in {text!r}")
        if not _COUNTER.match(words[0]):
            arguments.append(words.pop(0))
        if words and place + 1 < len(pieces):
            raise ValueError(f"{words[0]!r} stands before the last operand in {text!r}")
        for word in words:
            found = _COUNTER.match(word) or _WORD.match(word)
            if found is None or found[1] in modifiers:
                raise ValueError(f"modifier {word!r} is not understood in {text!r}")
            modifiers[found[1]] = found[2] or ""
    return tuple(arguments), modifiers


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that stand outside brackets; none of an empty text."""
    parts, depth = [""], 0
    for character in text.strip():
        depth += (character in "[(") - (character in "])")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError(f"brackets do not match in {text!r}")
    return parts if text.strip() else []
