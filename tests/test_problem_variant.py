"""A submission's declaration and entry are read from its source as it stands, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BrokenSubmission, FileProblem
from harness.problem.variant import Variant, read_variant

ENTRY = "def custom_kernel(data):\n    return data\n"


def read(tmp_path: Path, text: str | bytes) -> Variant:
    path = tmp_path / "candidate.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_variant(path)


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(BrokenSubmission) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(tmp_path / "candidate.py"))


def test_a_literal_declaration_is_read(tmp_path):
    variant = read(
        tmp_path,
        'VARIANT = {"shapes": ["4x8", "16x8"], "targets": ["sm_90"], "kv": {"keys": "fp8", "values": "bf16"}}\n'
        + ENTRY,
    )
    assert variant.name == "candidate"
    assert variant.shapes == ("4x8", "16x8")
    assert variant.targets == ("sm_90",)
    assert variant.declared["kv"] == {"keys": "fp8", "values": "bf16"}
    assert variant.takes("16x8")
    assert not variant.takes("16x32")
    assert variant.declaration("4x8") == variant.declaration(None) == variant.declared
    assert not variant.is_merged


@pytest.mark.parametrize("text", ["", 'VARIANT = {"shapes": "any"}\n', 'VARIANT = {"kv": "fp8"}\n'])
def test_a_file_that_declares_no_shapes_takes_any(tmp_path, text):
    variant = read(tmp_path, text + ENTRY)
    assert variant.shapes is None
    assert variant.takes("anything")
    assert variant.targets == ()


def test_a_declaration_with_a_type_is_read_too(tmp_path):
    variant = read(tmp_path, 'from typing import Any\nVARIANT: dict[str, Any] = {"shapes": ["4x8"]}\n' + ENTRY)
    assert variant.shapes == ("4x8",)


@pytest.mark.parametrize(
    "value",
    ["dict(shapes=['4x8'])", "{'shapes': SHAPES}", "{**BASE}", "['4x8']", "'any'", "{[1]: 2}", "{'a': 1 + x}", "None"],
)
def test_a_declaration_that_is_no_literal_dictionary_is_refused_with_its_line(tmp_path, value):
    assert refusal(tmp_path, f"'''doc'''\n\nVARIANT = {value}\n{ENTRY}") == ":3: VARIANT must be a literal dictionary"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("'shapes': '4x8'", "VARIANT['shapes'] must be a list of labels"),
        ("'shapes': 4", "VARIANT['shapes'] must be a list of labels"),
        ("'shapes': [4, 8]", "VARIANT['shapes'] must be a list of labels"),
        ("'targets': 'sm_90'", "VARIANT['targets'] must be a list of names"),
        ("'targets': [90]", "VARIANT['targets'] must be a list of names"),
        ("'shapes': {'4x8': 'fp8'}", "VARIANT['shapes']['4x8'] must be a dictionary"),
        ("'shapes': {}, 'fallback': 'portable'", "VARIANT['fallback'] must be a dictionary"),
    ],
)
def test_a_declaration_of_the_wrong_form_is_refused_with_its_line(tmp_path, entry, why):
    message = refusal(tmp_path, f"import os\nVARIANT = {{{entry}}}\n{ENTRY}")
    assert message.startswith(":2: ")
    assert why in message


def test_a_merged_file_declares_each_shape_apart_and_a_fallback_for_the_rest(tmp_path):
    variant = read(
        tmp_path,
        "VARIANT = {'shapes': {'4x8': {'kv': 'fp8'}, '16x8': {'kv': 'bf16'}}, 'fallback': {'kv': 'mxfp4'}}\n" + ENTRY,
    )
    assert variant.is_merged
    assert variant.shapes is None
    assert variant.takes("16x32")
    assert variant.declaration("4x8") == {"kv": "fp8"}
    assert variant.declaration("16x8") == {"kv": "bf16"}
    assert variant.declaration("16x32") == variant.declaration(None) == {"kv": "mxfp4"}


def test_a_merged_file_without_a_fallback_declares_nothing_for_the_rest(tmp_path):
    variant = read(tmp_path, "VARIANT = {'shapes': {'4x8': {'kv': 'fp8'}}}\n" + ENTRY)
    assert variant.declaration("16x32") == {}


def test_only_the_files_own_top_level_declares(tmp_path):
    variant = read(tmp_path, "def inner():\n    VARIANT = {'shapes': ['4x8']}\n    return VARIANT\n" + ENTRY)
    assert variant.declared == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "\ufeff" + text.replace("\n", "\r\n").rstrip(),
    ],
    ids=["CRLF", "CR", "byte-order mark", "no final newline", "all at once"],
)
def test_line_ends_a_byte_order_mark_and_a_missing_newline_are_read_as_they_are(tmp_path, change):
    text = "# Zürich: °\nVARIANT = {'shapes': ['4x8']}\n" + ENTRY
    variant = read(tmp_path, change(text))
    assert variant.shapes == ("4x8",)
    assert variant.source.rstrip("\n") == text.rstrip("\n")


def test_the_hash_is_of_the_text_and_not_of_the_name_or_its_line_ends(tmp_path):
    first = read(tmp_path, ENTRY)
    other = tmp_path / "other.py"
    other.write_bytes(ENTRY.replace("\n", "\r\n").encode())
    assert read_variant(other).source_hash == first.source_hash
    assert read(tmp_path, ENTRY + "# changed\n").source_hash != first.source_hash


def test_a_syntax_error_is_refused_with_its_line(tmp_path):
    assert refusal(tmp_path, "import os\n\ndef custom_kernel(data:\n    return 1\n").startswith(":3: syntax error: ")


@pytest.mark.parametrize(
    "text", ["x = 1\0\n" + ENTRY, "(" * 5000 + ")" * 5000 + "\n" + ENTRY, "x = " + "-" * 100_000 + "1"]
)
def test_text_that_the_parser_cannot_take_is_refused(tmp_path, text):
    assert refusal(tmp_path, text).startswith(":")


def test_bytes_that_are_no_utf8_are_refused_with_their_line(tmp_path):
    text = b"import os\n# caf\xe9\n" + ENTRY.encode()
    assert refusal(tmp_path, text) == ":2: not UTF-8 text (the platform takes UTF-8 only)"


@pytest.mark.parametrize(
    "text",
    [
        ENTRY,
        "async def custom_kernel(data):\n    return data\n",
        "class custom_kernel:\n    pass\n",
        "def run(data): return data\ncustom_kernel = run\n",
        "def run(data): return data\nother = custom_kernel = run\n",
        "def run(data): return data\ncustom_kernel, other = run, run\n",
        "from collections.abc import Callable\ndef run(data): return data\ncustom_kernel: Callable = run\n",
        "from task import custom_kernel\n",
        "from task import run as custom_kernel\n",
        "import task as custom_kernel\n",
        "try:\n    from task import custom_kernel\nexcept ImportError:\n    def custom_kernel(data): return data\n",
        "import sys\nif sys.version_info > (3,):\n    def custom_kernel(data): return data\n",
        "import sys\nif sys.version_info < (3,):\n    pass\nelse:\n    custom_kernel = len\n",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    def custom_kernel(data): return data\n",
        "for custom_kernel in (len,):\n    pass\n",
        "if True:\n    try:\n        pass\n    finally:\n        custom_kernel = len\n",
    ],
)
def test_an_entry_may_be_bound_in_any_way_at_module_level(tmp_path, text):
    assert read(tmp_path, text).source == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        "def kernel(data): return data\n",
        "# custom_kernel\n'custom_kernel'\n",
        "print(custom_kernel)\n",
        "class Holder:\n    def custom_kernel(self, data): return data\n",
        "class Holder:\n    custom_kernel = len\n",
        "def make():\n    def custom_kernel(data): return data\n    return custom_kernel\n",
        "def make():\n    custom_kernel = len\n    return custom_kernel\n",
        "def make():\n    from task import custom_kernel\n    return custom_kernel\n",
        "if True:\n    def make():\n        def custom_kernel(data): return data\n",
        "custom_kernel: object\n",
    ],
)
def test_a_file_without_an_entry_at_module_level_is_refused(tmp_path, text):
    assert refusal(tmp_path, text) == ": defines no custom_kernel(data) at module level"


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(FileProblem, match=r"no such file: .*absent\.py"):
        read_variant(tmp_path / "absent.py")
    with pytest.raises(FileProblem, match="is a folder; expected a Python file"):
        read_variant(tmp_path)


def test_reading_a_file_does_not_run_it(tmp_path):
    marker = tmp_path / "ran"
    read(tmp_path, f"open({str(marker)!r}, 'w').close()\n{ENTRY}")
    assert not marker.exists()
