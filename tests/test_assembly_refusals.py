"""What the merge refuses, each with its file, line and reason; and the nearest thing that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from assembly_cases.problem_folder import make_problem, merge, merge_files, run_source, winners_text

from harness.errors import BrokenSubmission, CannotMerge

ENTRY = "\n\ndef custom_kernel(data):\n    return data\n"
PLAIN = "def custom_kernel(data):\n    return data['x']\n"

REFUSED = [
    # names that hide what they bind or mean
    ("from math import *", 1, "hides which names it binds"),
    ("import math\nfrom . import other", 2, "a relative import"),
    ("def f():\n    from math import *\n", 2, "hides which names it binds"),
    # built at run time
    ("def f():\n    exec('x = 1')", 2, "exec runs code that is built at run time"),
    ("def f(x):\n    return eval(x)", 2, "eval runs code that is built at run time"),
    ("def f():\n    return globals()['x']", 2, "globals reaches names by text"),
    ("def f():\n    return vars()", 2, "vars reaches names by text"),
    ("def f():\n    return __import__('math')", 2, "__import__ reaches names by text"),
    ("import sys\n\ndef f():\n    return sys.modules[__name__]", 4, "sys.modules reaches"),
    ("from sys import modules\n\ndef f():\n    return modules", 4, "modules reaches"),
    ("import sys\n\ndef f():\n    return sys._getframe(1)", 4, "sys._getframe reaches"),
    ("import importlib\n\ndef f(x):\n    return importlib.import_module(x)", 4, "import_module hides"),
    ("import torch\n\ndef f(x):\n    setattr(torch, x, 1)", 4, "setattr changes torch"),
    # what all variants would share
    ("import os\nos.environ['A'] = '1'", 2, "os.environ changes the environment"),
    ("import os\n\ndef f():\n    os.environ['A'] = '1'", 4, "os.environ changes the environment"),
    ("import os\nos.environ.setdefault('A', '1')", 2, "os.environ.setdefault changes the environment"),
    ("from os import environ\nenviron['A'] = '1'", 2, "os.environ changes the environment"),
    ("import sys\nsys.path.insert(0, '.')", 2, "sys.path"),
    ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True", 2, "allow_tf32 changes"),
    ("import torch\n\ndef f():\n    torch.backends.cuda.matmul.allow_tf32 = True", 4, "allow_tf32 changes"),
    ("import torch\n\ndef f():\n    torch.set_default_dtype(torch.float16)", 4, "set_default_dtype changes a setting"),
    ("import torch\ntorch.manual_seed(0)", 2, "torch.manual_seed changes torch's random state"),
    ("import triton\n\ndef f():\n    triton.knobs.x += 1", 4, "triton.knobs.x changes"),
    ("import torch\n\ndef f():\n    del torch.float16", 4, "torch.float16 changes"),
    # effects at import
    ("print('hello')", 1, "the call `print"),
    ("import torch\nX = 1\nY = torch.zeros(3)", 3, "the call `torch.zeros"),
    ("import torch\nX = [torch.cuda.get_device_name(0)]", 2, "get_device_name"),
    ("X = open('a').read()", 1, "the call `open"),
    ("def f():\n    print(1)\n\n\nX = f()", 5, "the call `f()`"),
    ("class C:\n    def __init__(self):\n        print(1)\n\n\nX = C()", 6, "the call `C()`"),
    ("class C:\n    print(1)", 2, "the call `print"),
    ("def f(x=print(1)):\n    pass", 1, "the call `print"),
    ("import functools\n\n\n@functools.lru_cache(maxsize=input())\ndef f():\n    pass", 4, "the call `input"),
    ("with open('a') as f:\n    pass", 1, "`with open"),
    ("while True:\n    break", 1, "`while True"),
    ("if True:\n    raise ImportError('no')", 2, "`raise ImportError"),
    ("try:\n    import math\nexcept ImportError:\n    print(1)", 4, "the call `print"),
    ("for x in input():\n    pass", 1, "the call `input"),
    (
        "from torch.utils.cpp_extension import load_inline\n\nM = load_inline(name='x', cpp_sources='')",
        3,
        "the call `load_inline",
    ),
    ("if __name__ == '__main__':\n    pass\nelse:\n    X = 1", 1, "the `else` of an"),
    # one name for two things
    ("import math\n\n\ndef math():\n    pass", 1, "math is both imported and defined here"),
    ("from math import sqrt\nfrom cmath import sqrt", 2, "sqrt is imported twice"),
    # this repository
    ("import reference", 1, "cannot import reference"),
    ("from harness.errors import HarnessError", 1, "cannot import harness.errors"),
    ("def f():\n    from shared import x", 2, "import shared at module level"),
    ("import shared", 1, "write `from MODULE import NAME`"),
    ("from shared import missing", 1, "shared.py defines no missing"),
    ("from b import custom_kernel as other", 1, "b is a variant itself"),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shared import x", 3, "outside of any block"),
    # the word
    ("x = 1\n# A Stream of data\n", 2, "contains the text 'Stream'"),
    ("x = 'downstream'", 1, "contains the text 'stream'"),
    # names in process-wide tables
    (
        "from torch.utils import cpp_extension as e\n\n\ndef f(x):\n    return e.load_inline(name=x, cpp_sources='')",
        5,
        "load_inline(name=…) is built at run time",
    ),
]


@pytest.mark.parametrize(("source", "line", "reason"), REFUSED)
def test_refused_with_file_line_and_reason(source: str, line: int, reason: str, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("")
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("")
    problem = make_problem(tmp_path, {"a": source + ENTRY, "b": PLAIN, "shared": "x = 1\n"})
    with pytest.raises(CannotMerge) as caught:
        merge(problem)
    assert (str(caught.value.path), caught.value.line) == ("variants/a.py", line)
    assert reason in caught.value.reason
    assert "\n" not in str(caught.value)


TAKEN = [
    "import torch\nX = torch.float16",
    "import math\nX = math.ceil(2.5)",
    "import os\nX = os.environ.get('A', '1')",
    "import functools\n\n\n@functools.lru_cache(maxsize=None)\ndef f(x):\n    return x",
    "def f(eval, globals):\n    return eval(globals)",
    "class C:\n    def eval(self):\n        return self.eval()",
    "import torch\nX = torch.__version__.split('+')[0]",
    "def f(n):\n    return [k * 2 for k in range(n)]\n\n\nX = f(3)",
    "TABLE = {}\nfor k in range(3):\n    TABLE[k] = k * k\nTABLE.update({4: 5})",
    "try:\n    import no_such_module as module\nexcept ImportError:\n    module = None",
    "import torch\nX = None if torch.version.hip is None else torch.float8_e4m3fnuz",
    "from typing import NamedTuple\n\n\nclass P(NamedTuple):\n    x: int\n\n\nX = P(3)",
    "import importlib\n\n\ndef f():\n    return importlib.import_module('math')",
    "import torch\n\n\ndef f(q):\n    q.data[0] = 1\n    x = torch.empty(3)\n    x[0] = 2\n    return x",
    "import threading\nLOCK = threading.Lock()",
    "if __name__ == '__main__':\n    print(input())",
    "import torch\ntorch.cuda.is_available()",
]


@pytest.mark.parametrize("source", TAKEN)
def test_what_only_looks_alike_is_taken(source: str, tmp_path: Path) -> None:
    assert "def _a(data):" in merge_files(tmp_path, {"a": source + ENTRY, "b": PLAIN})


EXTENSION = """\
from torch.utils.cpp_extension import load_inline

NAME = "my_extension"
SOURCE = "int f() {{ return {value}; }}"


def load():
    return load_inline(name=NAME, cpp_sources=SOURCE)
"""
NAMESPACE = """\
import torch

LIBRARY = torch.library.Library("mine", "FRAGMENT")
LIBRARY.define("{value}(Tensor x) -> Tensor")
"""
CUSTOM_OP = """\
import torch


@torch.library.custom_op("mine::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x + {value}
"""
IN_CPP = 'SOURCE = """TORCH_LIBRARY(mine, m) {{ m.def("{value}"); }}"""\n'
DEFINED = 'import torch\n\ntorch.library.define("mine::op", "(Tensor x, int y={value}) -> Tensor")\n'
ALLOCATOR = "import triton\n\n\ndef allocate():\n    triton.set_allocator({value})\n"
REGISTERED = [
    (DEFINED, 3, "the operator namespace 'mine'"),
    (ALLOCATOR, 5, "the allocator of Triton 'triton.set_allocator'"),
    (EXTENSION, 8, "the extension module 'my_extension'"),
    (NAMESPACE, 3, "the operator namespace 'mine'"),
    (CUSTOM_OP, 4, "the operator namespace 'mine'"),
    (IN_CPP, 1, "the operator namespace 'mine'"),
]


@pytest.mark.parametrize(("text", "line", "reason"), REGISTERED)
def test_one_registered_name_with_two_contents_is_refused(text: str, line: int, reason: str, tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": text.format(value=1) + ENTRY, "b": text.format(value=2) + ENTRY})
    with pytest.raises(CannotMerge) as caught:
        merge(problem)
    assert (str(caught.value.path), caught.value.line) == ("variants/b.py", line)
    assert caught.value.reason.startswith(reason)
    assert f"variants/a.py:{line}" in caught.value.reason


@pytest.mark.parametrize(("text", "line", "reason"), REGISTERED)
def test_one_registered_name_with_one_content_is_made_once(text: str, line: int, reason: str, tmp_path: Path) -> None:
    source = merge_files(tmp_path, {"a": text.format(value=1) + ENTRY, "b": text.format(value=1) + ENTRY})
    registering = text.format(value=1).split("\n")[line - 1]
    assert source.count(registering) == 1


def test_a_cached_extension_of_one_content_may_be_loaded_by_each_variant(tmp_path: Path) -> None:
    text = EXTENSION.format(value=1).replace("def load", "@functools.lru_cache\ndef load")
    source = merge_files(tmp_path, dict.fromkeys("ab", "import functools\n" + text + ENTRY))
    assert source.count("return load_inline(name=NAME, cpp_sources=SOURCE)") == 2


def test_an_operator_namespace_that_would_be_made_twice_is_refused(tmp_path: Path) -> None:
    text = CUSTOM_OP.format(value="len(seen)").replace("(x: torch.Tensor)", "(x: torch.Tensor, seen=[])")
    problem = make_problem(tmp_path, dict.fromkeys("ab", text + ENTRY))
    with pytest.raises(CannotMerge, match="operator namespace 'mine'"):
        merge(problem)


def test_annotations_that_are_read_are_refused_beside_a_future_import(tmp_path: Path) -> None:
    future = "from __future__ import annotations\n" + PLAIN
    problem = make_problem(tmp_path, {"a": future, "b": CUSTOM_OP.format(value=1) + ENTRY})
    with pytest.raises(CannotMerge, match="reads annotations") as caught:
        merge(problem)
    assert (str(caught.value.path), caught.value.line) == ("variants/b.py", 4)


def test_plain_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    files = {
        "a": "from one import x\n" + ENTRY,
        "one": "from two import y\nx = 1\n",
        "two": "\nfrom one import x\ny = 2\n",
    }
    with pytest.raises(CannotMerge, match="import each other") as caught:
        merge(make_problem(tmp_path, files))
    assert (str(caught.value.path), caught.value.line) == ("variants/two.py", 2)


def test_a_dotted_import_whose_name_must_change_is_refused(tmp_path: Path) -> None:
    files = {"a": "import os.path\n" + ENTRY, "b": "from posix import stat as os\n" + ENTRY}
    with pytest.raises(CannotMerge, match="import it with `as`") as caught:
        merge(make_problem(tmp_path, files))
    assert (str(caught.value.path), caught.value.line) == ("variants/a.py", 1)


def test_a_syntax_error_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BrokenSubmission, match=r"variants/a.py:2: syntax error"):
        merge(make_problem(tmp_path, {"a": "x = 1\ndef :\n"}))


def test_a_winner_without_an_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenSubmission, match=r"variants/a.py: defines no custom_kernel"):
        merge(make_problem(tmp_path, {"a": "x = 1\n"}))


def test_a_name_that_cannot_become_a_python_name_is_refused(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a-1": PLAIN}, winners_text({"1": "a-1"}, "a-1"))
    with pytest.raises(CannotMerge, match="rename the file"):
        merge(problem)


def test_a_missing_shape_key_is_refused(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, {"a": PLAIN, "dispatch": "x = 1\n"})
    with pytest.raises(CannotMerge, match="defines no shape_key"):
        merge(problem)
    (tmp_path / "variants" / "dispatch.py").unlink()
    with pytest.raises(CannotMerge, match="no such file"):
        merge(problem)


def test_a_file_over_the_platform_limit_is_refused(tmp_path: Path) -> None:
    kept = f"X = '{'a' * 900_000}'\n" + ENTRY
    assert len(merge_files(tmp_path / "fits", {"a": kept})) > 900_000
    problem = make_problem(tmp_path / "over", {"a": kept.replace("X = '", "X = '" + "a" * 100_000)})
    with pytest.raises(CannotMerge, match="the platform takes 1,000,000"):
        merge(problem)


def test_two_variants_that_set_one_shared_global_differently_are_refused_at_the_first(tmp_path: Path) -> None:
    text = "import torch\n\ntorch.backends.cudnn.benchmark = {value}\n"
    files = {"a": text.format(value=True) + ENTRY, "b": text.format(value=False) + ENTRY}
    with pytest.raises(CannotMerge, match="all variants of the merged file would share one value") as caught:
        merge(make_problem(tmp_path, files))
    assert (str(caught.value.path), caught.value.line) == ("variants/a.py", 3)


def test_globals_that_only_a_function_makes_stay_apart(tmp_path: Path) -> None:
    text = (
        "def made():\n    global kept\n    kept = kept + 1 if seen() else 1\n    return kept\n\n\n"
        "def seen():\n    try:\n        return bool(kept)\n    except NameError:\n        return False\n\n\n"
        "def custom_kernel(data):\n    return made()\n"
    )
    entry = run_source(merge_files(tmp_path, {"a": text, "b": text}))["custom_kernel"]
    assert [entry({"n": n}) for n in (1, 1, 2)] == [1, 2, 1]


def test_globals_that_only_share_a_name_stay_apart(tmp_path: Path) -> None:
    text = "_state = {value}\n\n\ndef custom_kernel(data):\n    global _state\n    _state += 1\n    return _state\n"
    source = merge_files(tmp_path, {"a": text.format(value=0), "b": text.format(value=100)})
    entry = run_source(source)["custom_kernel"]
    assert [entry({"n": n}) for n in (1, 2, 1, 2)] == [1, 101, 2, 102]
