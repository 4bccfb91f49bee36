"""Rules on the file as text: the forbidden word, the encoding and the size."""

from __future__ import annotations

import base64
import re
import tokenize
import zlib
from collections.abc import Iterator

from harness.lint.names import folded
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

# The platform lowers the whole text and looks for this, in every mode, before anything else.
# Source: gpu-mode/kernelbot, src/kernelbot/api/api_utils.py (2026).
WORD = "stream"

_EXPLANATION = (
    "by a plain text search for these six letters in upper or lower case, in comments, names and strings alike; it "
    "does not look at what runs, so CUDA graphs and torch.compile are not what it means. Reword it: Triton and torch "
    "launch in order by themselves, and in an extension `kernel<<<grid, block>>>` is all that is needed"
)

# Source: the same file; it also refuses an empty upload.
MAX_BYTES = 1_000_000
_EVASION = "to get past the server's search: grounds for disqualification; do without it"

# A job's inputs are one JSON text, zlib-compressed and base64-coded, in one field that GitHub cuts at 65,535
# characters. Source: gpu-mode/kernelbot, src/libkernelbot/launchers/github.py, and GitHub's workflow limits.
MAX_PAYLOAD_BYTES = 65_535

_WORD_WITH_NAME = re.compile(rf"[\w.]*{WORD}\w*", re.IGNORECASE)
# Two pieces pasted by C's preprocessor: a macro that joins its arguments, and a call of a macro with two words.
_PASTING_MACRO = re.compile(r"#\s*define\s+(\w+)\s*\([^)]*\)[^\n]*##")


def _forbidden_word(source: Source) -> Hits:
    if WORD not in source.text.lower():
        return
    places = _places(source)
    explained = False
    for number, line in enumerate(source.lines, 1):
        found = _WORD_WITH_NAME.search(line)
        if found is None:
            continue
        what = f"`{found[0]}` in {places.get(number, 'the text')}: the server refuses every file that contains `{WORD}`"
        if explained:
            yield number, what
            continue
        explained = True
        yield number, f"{what}, {_EXPLANATION}"


def _places(source: Source) -> dict[int, str]:
    """For each line with the word, the kind of text it is in."""
    kinds = {tokenize.COMMENT: "a comment", tokenize.STRING: "a string", tokenize.NAME: "a name"}
    places: dict[int, str] = {}
    for token in source.tokens:
        if WORD not in token.string.lower():
            continue
        for offset, text in enumerate(token.string.split("\n")):
            if WORD in text.lower():
                places.setdefault(token.start[0] + offset, kinds.get(token.type, "a string"))
    return places


def _hidden_word(source: Source) -> Hits:
    if WORD in source.text.lower():
        return  # the plain search refuses the file already
    for site in [*source.index.strings, *source.index.concatenations, *source.index.calls]:
        text = folded(site.node, site.where.scope)
        if text is None:
            continue
        if WORD in text.lower():
            yield site.node.lineno, f"puts the forbidden text `{WORD}` together from pieces, {_EVASION}"
        elif "##" in text and _pastes_word(text):
            yield site.node.lineno, f"pastes the forbidden text `{WORD}` together with `##`, {_EVASION}"


def _pastes_word(text: str) -> bool:
    for macro in _PASTING_MACRO.findall(text):
        for arguments in re.findall(rf"\b{re.escape(macro)}\s*\(([^()]*)\)", text):
            if WORD in re.sub(r"[\s,]", "", arguments).lower():
                return True
    return False


def _not_utf8(source: Source) -> Hits:
    try:
        source.text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = source.text[: error.start].count("\n") + 1
        yield line, "not UTF-8 text, which is all that the platform takes: save the file as UTF-8"


def _too_large(source: Source) -> Hits:
    if source.size_bytes > MAX_BYTES:
        yield (
            1,
            f"{source.size_bytes:,} bytes, and the platform takes at most {MAX_BYTES:,}: drop tables and unused code",
        )


def _large_payload(source: Source) -> Hits:
    size = payload_bytes(source.text)
    if size > MAX_PAYLOAD_BYTES:
        limit = f"the job's whole input, with the problem's own files, has to fit in {MAX_PAYLOAD_BYTES:,}"
        yield 1, f"{size:,} bytes after zlib and base64, and {limit}: drop tables, binaries and unused code"


def payload_bytes(text: str) -> int:
    """The size of `text` as the platform sends it to a runner: zlib-compressed, then base64-coded, in bytes."""
    return len(base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"))))


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("forbidden-word", True, _forbidden_word)
    yield Rule("hidden-word", True, _hidden_word)
    yield Rule("not-utf8", True, _not_utf8)
    yield Rule("too-large", True, _too_large)
    yield Rule("large-payload", False, _large_payload)
