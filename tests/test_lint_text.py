"""The rules on the file as text, and how files of every shape are read."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import time
import zlib
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FileProblem
from harness.lint import RULES, lint_file, lint_source
from harness.lint.rules.text import payload_bytes

GOOD = "#!POPCORN leaderboard amd-mixed-mla\nimport torch\n\n\ndef custom_kernel(data):\n    return torch.relu(data)\n"


def found(source: str, rule: str) -> list[int]:
    return [finding.line for finding in lint_source(source, "submission.py") if finding.rule == rule]


def test_each_line_with_the_word_is_shown_once_in_any_case():
    source = "# Stream and stream\nx = 1\nSTREAM = 'upstream'\n"
    assert found(source, "forbidden-word") == [1, 3]


def test_the_first_line_explains_that_it_is_a_text_search_and_every_line_says_where_the_word_is():
    findings = lint_source("# a Stream\nmy_stream = 1\nx = 'stream'\ny = '''\n\nsstream\n'''\n", "x.py")
    messages = [finding.message for finding in findings if finding.rule == "forbidden-word"]
    assert "plain text search" in messages[0]
    assert "CUDA graphs and torch.compile" in messages[0]
    assert [message.split(":")[0] for message in messages] == [
        "`Stream` in a comment", "`my_stream` in a name", "`stream` in a string", "`sstream` in a string",
    ]  # fmt: skip
    assert all("\n" not in message for message in messages)


def test_the_word_is_found_in_a_file_that_does_not_parse():
    assert found("def f(:\n  stream", "forbidden-word") == [2]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_numbers_are_right_for_every_line_end(end):
    source = end.join(["# one", "", "import torch", "torch.cuda.Event = None", "# stream", ""])
    assert found(source, "patched-timer") == [4]
    assert found(source, "forbidden-word") == [5]


def test_a_form_feed_ends_no_line():
    assert found("x = 1\x0c\n# stream\n", "forbidden-word") == [2]


def test_a_byte_order_mark_hides_the_directives_from_the_server():
    assert found("\ufeff" + GOOD, "directive-ignored") == [1]
    assert found("\ufeff" + GOOD, "directive-missing") == [1]
    assert found("\ufeff" + GOOD, "syntax-error") == []


def test_an_upload_of_a_million_bytes_is_taken_and_one_more_is_not(tmp_path):
    path = tmp_path / "submission.py"
    for size, lines in ((1_000_000, []), (1_000_001, [1])):
        path.write_bytes(GOOD.encode() + b"#" * (size - len(GOOD)))
        assert [f.line for f in lint_file(path) if f.rule == "too-large"] == lines


def test_the_size_is_counted_in_bytes_rather_than_characters():
    assert found("#" + "é" * 500_000, "too-large") == [1]
    assert found("#" + "é" * 499_999, "too-large") == []


def test_a_file_that_compresses_badly_is_warned_about():
    noise = base64.b85encode(random.Random(0).randbytes(60_000)).decode()
    assert found(GOOD + f"# {noise}\n", "large-payload") == [1]
    assert found(GOOD + "# " + "0" * 900_000, "large-payload") == []


def test_the_payload_is_what_zlib_and_base64_make_of_the_file():
    assert payload_bytes(GOOD) == len(base64.b64encode(zlib.compress(GOOD.encode())))


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path):
    path = tmp_path / "submission.py"
    path.write_bytes(GOOD.encode() + b"# 5 \xb5s\n")
    findings = lint_file(path)
    assert [(f.rule, f.line, f.fatal) for f in findings] == [("not-utf8", 7, True)]


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path):
    with pytest.raises(FileProblem, match="no such file"):
        lint_file(tmp_path / "missing.py")
    with pytest.raises(FileProblem, match="is a folder"):
        lint_file(tmp_path)


def test_a_syntax_error_has_its_line_and_the_text_rules_still_speak():
    findings = {f.rule: f.line for f in lint_source("#!POPCORN gpu\nx = 1\ndef f(:\n    pass\n", "x.py")}
    assert findings == {"directive-empty": 1, "directive-missing": 1, "syntax-error": 3}


@pytest.mark.parametrize(
    "source",
    ["", "\n", "\0", "x = " + "(" * 500 + ")" * 500, "x = " + "-" * 20_000 + "1", "x = " + "1 + " * 5_000 + "1"],
    ids=["empty", "blank", "null byte", "parentheses", "minus signs", "a long sum"],
)
def test_odd_files_give_findings_and_no_error(source):
    assert all(finding.line >= 1 for finding in lint_source(source, "x.py"))


@given(
    st.text(alphabet=st.sampled_from(list("#!/POPCRNgpu leadrbost\n\r\x0c\ufeff'\"\\(){}[]=+.,:@x1é\0")), max_size=120)
)
@settings(max_examples=150, deadline=None)
def test_no_text_makes_the_lint_fail(text):
    assert all(finding.line >= 1 for finding in lint_source(text, "x.py"))


def test_findings_come_by_line_and_as_json_with_the_four_documented_keys():
    findings = lint_source("x = 'stream'\nimport torch\ntorch.cuda.Event = None\n", "x.py")
    assert [f.line for f in findings] == sorted(f.line for f in findings)
    assert list(json.loads(json.dumps(asdict(findings[0])))) == ["rule", "line", "message", "fatal"]


def test_rule_names_are_unique():
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_long_submission_takes_little_time():
    lines = [
        "def f{n}(q, out):",
        "    x = q[{n}] * {n} + q.view(-1)[{n}:]",
        "    k[(8, {n})](x, out, N={n})",
        "    return x",
        "",
    ]
    body = "".join("\n".join(lines).format(n=n) for n in range(500))
    source = GOOD + body
    times = []
    for _ in range(5):
        start = time.process_time()
        lint_source(source, "x.py")
        times.append(time.process_time() - start)
    # 2,000 lines. 0.1 s is the aim on an idle core (measured: 0.06 s); three times that leaves room for a busy machine.
    assert min(times) < 0.3


def test_the_lint_loads_no_heavy_package():
    code = "import sys, harness.lint; print(sorted({'torch', 'libcst', 'numpy', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
