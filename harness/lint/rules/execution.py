"""Rule against running code that cannot be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.lint.index import Site
from harness.lint.names import dotted
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

_RUNNERS = frozenset({
    "exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile", "types.FunctionType",
    "runpy.run_path", "ast.parse",
})  # fmt: skip
# The guard takes any of these for hidden code in a file that decodes something, wherever the two stand.
# Source: gpu-mode/kernelguard 0.3.2.
_REFUSED_BESIDE_DECODING = frozenset({"exec", "eval", "builtins.exec", "builtins.eval"})
# Turns text or bytes into other text or bytes. `bytes.decode` alone does not hide anything.
_DECODERS = frozenset({
    "base64.b64decode", "base64.b32decode", "base64.b16decode", "base64.b85decode", "base64.a85decode",
    "base64.urlsafe_b64decode", "base64.standard_b64decode", "base64.decodebytes", "binascii.unhexlify",
    "binascii.a2b_base64", "binascii.a2b_hex", "zlib.decompress", "lzma.decompress", "bz2.decompress",
    "gzip.decompress", "codecs.decode", "marshal.loads", "marshal.load", "bytes.fromhex", "bytearray.fromhex",
})  # fmt: skip
# The same by their last name, for modules imported in ways that are not followed.
_DECODING_METHODS = {decoder.rpartition(".")[2] for decoder in _DECODERS} - {"loads", "load", "decode"}


def _decoded_exec(source: Source) -> Hits:
    decodes = any(_decodes(site.node, site) for site in source.index.calls)
    for node, where in source.index.calls:
        called = source.called[node]
        if called in ("marshal.loads", "marshal.load"):
            yield node.lineno, "loads compiled code that nobody can read: refused as hidden code; write it as source"
        elif called in _RUNNERS and node.args and _is_decoded(node.args[0], Site(node, where), set()):
            yield node.lineno, f"`{called}` of decoded text: refused as hidden code; write the code out as source"
        elif decodes and called in _REFUSED_BESIDE_DECODING:
            yield node.lineno, f"`{called}` in a file that also decodes text, which the guard refuses: do without one"


def _is_decoded(node: ast.AST, site: Site, seen: set[tuple[int, str]]) -> bool:
    """Whether an expression is made with a decoder, in itself or through names of the file; `seen` ends loops."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and _decodes(inner, site):
            return True
        if isinstance(inner, ast.Name) and _name_is_decoded(inner.id, site, seen):
            return True
    return False


def _decodes(node: ast.Call, site: Site) -> bool:
    called = dotted(node.func, site.where.scope) or ""
    if called in _DECODERS:
        return True
    method = node.func.attr if isinstance(node.func, ast.Attribute) else called
    if method in _DECODING_METHODS:
        return True
    return method == "join" and any(_builds_from_numbers(argument) for argument in node.args)


def _builds_from_numbers(node: ast.expr) -> bool:
    """`"".join(chr(n) for n in ...)` and `"".join(map(chr, ...))`."""
    return any(isinstance(inner, ast.Name) and inner.id == "chr" for inner in ast.walk(node))


def _name_is_decoded(name: str, site: Site, seen: set[tuple[int, str]]) -> bool:
    owner = site.where.scope.owner_of(name)
    if owner is None or (id(owner), name) in seen:
        return False
    seen.add((id(owner), name))
    values = [value for value in owner.bindings[name] if isinstance(value, ast.expr)]
    return any(_is_decoded(value, Site(value, site.where._replace(scope=owner)), seen) for value in values)


def rules() -> Iterator[Rule]:
    """The rule of this family."""
    yield Rule("decoded-exec", True, _decoded_exec)
