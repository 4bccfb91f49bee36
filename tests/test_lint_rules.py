"""Each rule finds what it is for, in the ways that people write it, and leaves its honest neighbours alone."""

from __future__ import annotations

import pytest

from harness.lint import RULES, lint_source

# Rule → snippets that it must find, and near misses that it must not.
CASES: dict[str, tuple[list[str], list[str]]] = {
    "forbidden-word": (
        [
            "# downstream users",
            "x = 'Stream'",
            "import torch\ns = torch.cuda.Stream()",
            'CPP = """\n#include <sstream>\n"""',
        ],
        ["s = 'st ream'", "g = torch.cuda.CUDAGraph()", "f = torch.compile(f, mode='reduce-overhead')"],
    ),
    "hidden-word": (
        [
            "x = 'current_str' + 'eam'",
            "x = 'current_str' 'eam'",
            r"x = '\x73tream'",
            "x = ''.join(['current_', 'str', 'eam'])",
            "x = f'{\"str\"}eam'",
            "a = 'str'\nb = 'eam'\nx = a + b",
            "C = '''\n#define CAT(a, b) a##b\nCAT(hipStr, eam_t) queue;\n'''",
        ],
        ["x = 'str' + 'ess'", "C = '''\n#define CAT(a, b) a##b\nCAT(hip, Malloc)(p);\n'''", "x = 1 + 2"],
    ),
    "not-utf8": (["# \udce9"], ["# é µ ✓"]),
    "too-large": (["#" * 1_000_001], ["#" * 1_000_000]),
    "directive-unknown": (
        ["#!POPCORN mode test", "//!POPCORN lang py"],
        ["#!POPCORN GPU MI355X", "#!POPCORN gpus a b"],
    ),
    "directive-duplicate": (
        ["#!POPCORN leaderboard a\n#!POPCORN leaderboard b", "#!POPCORN gpu a\n# x\n#!POPCORN gpus b"],
        ["#!POPCORN leaderboard a\n#!POPCORN gpu b", "#!POPCORN gpu a\n\n#!POPCORN gpu b"],
    ),
    "directive-empty": (["#!POPCORN", "#!POPCORN gpu", "#!POPCORN leaderboard "], ["#!POPCORN gpu a", "# !POPCORN"]),
    "directive-ignored": (
        [
            "\n#!POPCORN leaderboard a",
            '"""Doc."""\n#!POPCORN leaderboard a',
            "import x  #!POPCORN leaderboard a",
            "# !POPCORN leaderboard a",
            "#!popcorn leaderboard a",
            "#!POPCORN leaderboard a b",
            "\ufeff#!POPCORN leaderboard a",
        ],
        ["#!POPCORN leaderboard a", "# one\n#!POPCORN leaderboard a\nx = '#!POPCORN gpu b'", "#!POPCORN gpus a b c"],
    ),
    "directive-missing": (
        ["x = 1", "\n#!POPCORN leaderboard a"],
        ["#!POPCORN leaderboard a", "// x\n#!POPCORN Leaderboard a"],
    ),
    "syntax-error": (["def f(:", "x = \0"], ["x = 1", "\ufeffx = 1", "x = 1\r\n"]),
    "no-entry": (
        [
            "x = 1",
            "def custom_kernel(): pass",
            "def custom_kernel(a, b): pass",
            "def custom_kernel(data, *, scale): pass",
            "async def custom_kernel(data): pass",
            "def custom_kernel(data):\n    yield data",
            "def _f(a, b): pass\ncustom_kernel = _f",
            "custom_kernel = lambda: None",
            "def f():\n    def custom_kernel(data): pass",
            "if __name__ == '__main__':\n    def custom_kernel(data): pass",
            "class R:\n    def __call__(self): pass\ncustom_kernel = R()",
        ],
        [
            "def custom_kernel(data): pass",
            "def custom_kernel(data, scale=1): pass",
            "def custom_kernel(*data): pass",
            "custom_kernel = lambda data: None",
            "def _f(a): pass\ncustom_kernel = torch.compile(_f)",
            "class R:\n    def __call__(self, data): pass\ncustom_kernel = R()",
            "from kernels import run as custom_kernel",
            "if X:\n    def custom_kernel(data): pass\nelse:\n    def custom_kernel(d): pass",
            "def custom_kernel(data):\n    return sum(x for x in data)",
        ],
    ),
    "patched-timer": (
        [
            "import torch\ntorch.cuda.Event = Fake",
            "import torch\ntorch.cuda.synchronize = lambda: None",
            "from torch import cuda\ncuda.Event.elapsed_time = f",
            "import time as t\nt.perf_counter_ns = lambda: 0",
            "import torch\nsetattr(torch.cuda, 'Event', Fake)",
            "import torch\nE = getattr(getattr(torch, 'cu' + 'da'), 'Ev' + 'ent')\nsetattr(E, 'elapsed' + '_time', f)",
            "import torch\ntorch.cuda.__dict__['Event'] = Fake",
            "import torch\nvars(torch.cuda).update(Event=Fake)",
            "from unittest import mock\nmock.patch('torch.cuda.Event', Fake).start()",
            "from unittest.mock import patch\nimport torch\npatch.object(torch.cuda, 'synchronize')",
            "def f(event):\n    event.elapsed_time = lambda other: 1.0",
            "import importlib\nimportlib.import_module('time').time = f",
            "import torch\ndel torch.cuda.Event",
        ],
        [
            "import torch\ne = torch.cuda.Event(enable_timing=True)\ne.record()",
            "import time\nt = time.perf_counter()",
            "class A:\n    pass\nA.time = 1",
            "def f(time):\n    time.start = 1",
            "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
        ],
    ),
    "patched-harness": (
        [
            "import torch\ntorch.testing.assert_close = f",
            "import torch\ntorch.allclose = lambda *a, **k: True",
            "import torch\ntorch.Tensor.__eq__ = f",
            "import builtins\nbuiltins.print = f",
            "__builtins__.open = f",
            "import utils\nutils.set_seed = f",
            "import sys\nsys.modules['reference'].ref_kernel = f",
            "import sys\nsys.modules['reference'] = Fake()",
            "import sys\nsys.modules.pop('reference')",
            "import sys\ndel sys.modules['utils']",
            "from sys import modules\nmodules.update(reference=Fake())",
            "def f(module):\n    module.check_implementation = g",
            "def f(module):\n    setattr(module, 'calc' + 'ulate_stats', g)",
            "import math\nmath.sqrt = f",
        ],
        [
            "import sys\nif 'aiter' in sys.modules: pass",
            "import torch\ntorch._dynamo.config.cache_size_limit = 8",
            "import os\nos.environ['CXX'] = 'clang++'",
            "class Config:\n    pass\nc = Config()\nc.print = 1",
            "import torch\nout = torch.empty(1)\nout.requires_grad = False",
        ],
    ),
    "trace-hook": (
        [
            "import sys\nsys.settrace(f)",
            "from threading import setprofile\nsetprofile(f)",
            "import sys as s\ns.addaudithook(f)",
        ],
        ["import sys\nsys.setrecursionlimit(10000)", "tracer.settrace(f)"],
    ),
    "import-hook": (
        [
            "import sys\nsys.meta_path.append(F())",
            "import sys\nsys.path_hooks[:] = []",
            "import sys\nsys.meta_path = []",
        ],
        ["import sys\nsys.path.insert(0, '/opt')", "import sys\nn = len(sys.meta_path)"],
    ),
    "module-reload": (
        ["from importlib import reload\nreload(x)"],
        ["import importlib\nimportlib.import_module('aiter')"],
    ),
    "tensor-override": (
        ["def custom_kernel(d):\n    o = f(d)\n    o.double = lambda: g()\n    return o"],
        ["o = f(d)\no.name = 'x'", "o = x.detach()", "double = 1"],
    ),
    "tensor-subclass": (
        ["from torch import Tensor\nclass Lazy(Tensor): pass", "import torch as t\nclass Lazy(t.Tensor): pass"],
        ["import torch\nclass M(torch.nn.Module): pass", "class Tensor: pass\nclass T(Tensor): pass"],
    ),
    "mutated-globals": (
        [
            "f.__globals__['x'] = 1",
            "g = f.__globals__\ng['x'] = 1",
            "getattr(f, '__glo' + 'bals__')['x'] = 1",
            "f.__globals__.update(x=1)",
            "del f.__globals__['x']",
        ],
        ["x = f.__globals__['x']", "f.__name__ = 'g'", "cache = {}\ncache['x'] = 1"],
    ),
    "globals-write": (
        ["globals()['f'] = 1", "globals().update(f=1)", "g = globals()\ng['f'] = 1"],
        ["x = globals()['f']", "globals_ = {}\nglobals_['f'] = 1"],
    ),
    "frame-access": (
        [
            "import inspect\ninspect.stack()",
            "from sys import _getframe\n_getframe(1)",
            "def f(frame):\n    return frame.f_back",
        ],
        ["import inspect\ninspect.signature(f)", "import traceback\ntraceback.print_exc()"],
    ),
    "frame-write": (
        [
            "import sys\nsys._getframe(1).f_globals['x'] = 1",
            "import inspect\ng = inspect.currentframe().f_back.f_locals\ng['x'] = 1",
            "import sys\nsys._getframe(1).f_globals.update(x=1)",
        ],
        ["import sys\nx = sys._getframe(1).f_globals['x']", "locals_ = {}\nlocals_['x'] = 1"],
    ),
    "heap-search": (
        ["import gc\ngc.get_objects()", "from gc import get_referrers as r\nr(x)"],
        ["import gc\ngc.disable()"],
    ),
    "code-object": (
        [
            "f.__code__ = g.__code__",
            "setattr(f, '__code__', g.__code__)",
            "h = f.__code__.replace(co_consts=())",
            "import types\nf = types.FunctionType(c, {})",
            "f.__closure__[0].cell_contents = 1",
        ],
        [
            "n = f.__code__.co_argcount",
            "from dataclasses import replace\nx = replace(c, a=1)",
            "s = 'a'.replace('a', 'b')",
        ],
    ),
    "interpreter-pointer": (
        [
            "import ctypes\nctypes.pythonapi.PyFrame_New",
            "import ctypes\nctypes.cast(id(x), ctypes.c_void_p)",
            "import ctypes\n(ctypes.c_char * 8).from_address(id(x))",
            "from ctypes import py_object as o\ny = o(x)",
        ],
        [
            "import ctypes\nlib = ctypes.CDLL('libamdhip64.so')\nlib.f(ctypes.c_void_p(t.data_ptr()))",
            "key = id(x)",
            "import ctypes\np = ctypes.cast(q.data_ptr(), ctypes.c_void_p)",
        ],
    ),
    "evaluator-mode": (
        [
            "import os\nfd = os.environ['POPCORN_FD']",
            "import os\nfd = os.getenv('POPCORN_' + 'SEED')",
            "import os\nif 'POPCORN_SEED' in os.environ: pass",
            "from os import environ\nenviron.get('POPCORN_FD')",
            "import sys\nmode = sys.argv[1]",
            "from sys import argv",
            "import sys\nMODE = 'benchmark'\nif __name__ == '__main__':\n    print(sys.argv)",
            "open('/proc/self/cmdline').read()",
            "import os\nopen(f'/proc/{os.getpid()}/maps')",
            "import __main__",
            "import importlib\nm = importlib.import_module('__main__')",
            "import sys\nm = sys.modules['__main__']",
            "import os\nif os.getppid() > 1: pass",
        ],
        [
            "import sys\nif __name__ == '__main__':\n    print(sys.argv)",
            "import os\nDEBUG = os.environ.get('MLA_DEBUG')",
            "cores = open('/proc/cpuinfo').read().count('processor')",
            "if __name__ != '__main__':\n    x = 1",
            "def main(argv):\n    return argv[1]",
        ],
    ),
    "reference-import": (
        [
            "import reference",
            "from reference import ref_kernel",
            "def custom_kernel(d):\n    from reference import ref_kernel",
        ],
        [
            "from task import input_t",
            "from utils import make_match_reference",
            "def _test():\n    import reference\nif __name__ == '__main__':\n    _test()",
        ],
    ),
    "forged-report": (
        [
            "print('check: pass')",
            "def custom_kernel(d):\n    print(f'benchmark.{1}.mean: 5')",
            "import sys\nsys.stdout.write('## Ranked Benchmark:')",
        ],
        ["print('the benchmark. It ran')", "print('check')", "if __name__ == '__main__':\n    print('check: pass')"],
    ),
    "descriptor-write": (
        [
            "import os\nos.write(5, b'x')",
            "import os\nfor fd in range(3, 9):\n    os.write(fd, b'x')",
            "import os\nf = os.fdopen(int(x), 'w')",
            "open(3, 'w')",
            "open(int(x), 'w')",
            "from os import dup2\ndup2(1, 2)",
        ],
        [
            "import os\nfd = os.open('lock', os.O_CREAT)\nos.write(fd, b'1')\nos.close(fd)",
            "import os, tempfile\nfd, path = tempfile.mkstemp()\nwith os.fdopen(fd, 'w') as f: pass",
            "open('x', 'w')",
            "import os\nos.write(f.fileno(), b'x')",
            "import os\ndef put(fd):\n    os.write(fd, b'x')",
        ],
    ),
    "decoded-exec": (
        [
            "import base64\nexec(base64.b64decode(X))",
            "import zlib, base64\neval(zlib.decompress(base64.b64decode(X)).decode())",
            "import zlib\ntext = zlib.decompress(X)\ncode = compile(text, 'x', 'exec')",
            "from binascii import unhexlify as u\nexec(u(X))",
            "import codecs\nexec(codecs.decode(X, 'rot13'))",
            "exec(''.join(chr(c) for c in X))",
            "exec(''.join(map(chr, X)))",
            "exec(bytes.fromhex(X))",
            "import marshal\nf = marshal.loads(X)",
            "import base64\ndef d(x):\n    return base64.b64decode(x)\nexec(d(X))",
            "import base64\ndef d(x):\n    return base64.b64decode(x)\ndef run():\n    text = d(X)\n    exec(text)",
            "import builtins, lzma\nbuiltins.exec(lzma.decompress(X))",
            "e = exec\nimport base64\ne(base64.b64decode(X))",
            "import base64, torch\nt = torch.frombuffer(base64.b64decode(X))\nexec('y = 1')",
        ],
        [
            "exec('x = 1')",
            "import re, base64\nre.compile(base64.b64decode(X).decode())",
            "import base64, torch\nt = torch.frombuffer(base64.b64decode(X))",
            "import torch\nf = torch.compile(f)",
        ],
    ),
    "package-install": (
        [
            "import os\nos.system('pip install triton==3.6')",
            "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])",
            "from subprocess import run as r\nr('python3 -m pip install -q x', shell=True)",
            "import subprocess\nsubprocess.run(['uv', 'pip', 'install', 'x'])",
            "import subprocess\ncmd = ['apt-get', '-y', 'install', 'x']\nsubprocess.run(cmd)",
            "import pip\npip.main(['install', 'x'])",
            "import importlib\nimportlib.import_module('pip')",
            "import subprocess, shlex\nsubprocess.run(shlex.split('pip install x'))",
            "import os\nos.system(f'pip install {name}')",
        ],
        [
            "import subprocess\nsubprocess.run(['hipcc', 'x.hip', '-o', 'pip.so'])",
            "import subprocess\nsubprocess.run(['make', 'install'])",
            "print('pip install x')",
        ],
    ),
    "network": (
        [
            "import requests\nrequests.get('https://x')",
            "import socket\ns = socket.socket()",
            "from urllib.request import urlopen\nurlopen('https://x')",
            "import torch\ntorch.hub.load('x', 'y')",
            "import os\nos.system('curl https://x | sh')",
            "import subprocess\nsubprocess.run(['git', 'clone', 'https://x'])",
            "from huggingface_hub import hf_hub_download\nhf_hub_download('x', 'y')",
        ],
        [
            "import socket\nsocket.gethostname()",
            "from urllib.parse import quote\nquote('x')",
            "requests = []\nrequests.append(1)",
        ],
    ),
    "child-process": (
        ["import subprocess\nsubprocess.run(['bash', '-c', 'x'])", "import os\nos.popen('python3 tune.py')"],
        [
            "import subprocess\nsubprocess.run(['/opt/rocm/bin/hipcc', 'x'])",
            "import subprocess\nsubprocess.check_output(['rocminfo'])",
            "import subprocess\nsubprocess.run([compiler, 'x'])",
            "import subprocess\nif __name__ == '__main__':\n    subprocess.run(['bash'])",
        ],
    ),
    "early-exit": (
        [
            "import os\nos._exit(0)",
            "import sys\nsys.exit(0)",
            "def custom_kernel(d):\n    exit(0)",
            "def custom_kernel(d):\n    raise SystemExit(0)",
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        ],
        [
            "import sys\nif __name__ == '__main__':\n    sys.exit(1)",
            "import sys\ndef main():\n    sys.exit(1)\nif __name__ == '__main__':\n    main()",
            "raise ValueError('x')",
            "parser.exit()",
        ],
    ),
    "background-work": (
        [
            "import threading\nthreading.Thread(target=f).start()",
            "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)",
            "import multiprocessing as mp\nmp.Pool(2)",
            "import os\nos.fork()",
        ],
        ["import threading\nlock = threading.Lock()", "import multiprocessing as mp\nn = mp.cpu_count()"],
    ),
    "sleep": (
        ["from time import sleep as s\ns(1)", "import torch\ndef custom_kernel(d):\n    torch.cuda._sleep(100)"],
        [
            "import time\nif __name__ == '__main__':\n    time.sleep(1)",
            "class A:\n    def sleep(self): pass\nA().sleep()",
        ],
    ),
    "import-work": (
        [
            "import torch\nx = torch.zeros(8, device='cuda:0')",
            "import torch\nD = torch.device('cuda')\nx = torch.ones(8, device=D)",
            "import torch\nx = torch.zeros(8).cuda()",
            "import torch\nx = torch.zeros(8).to('cuda')",
            "@triton.jit\ndef k(x): pass\nk[(1,)](1)",
            "def custom_kernel(d): pass\ncustom_kernel(1)",
            "import torch\ndef warm_up():\n    torch.cuda.synchronize()\nwarm_up()",
            "import torch\nclass R:\n    def __init__(self):\n        self.x = torch.empty(8, device='cuda')\nr = R()",
        ],
        [
            "import torch\ndef f():\n    return torch.zeros(8, device='cuda')",
            "import torch\nx = torch.zeros(8)",
            "import torch\nok = torch.cuda.is_available()",
            "import torch\nif __name__ == '__main__':\n    x = torch.zeros(8, device='cuda')",
            "import torch\ndef make():\n    def run():\n        return f(8).cuda()\n    return run\nr = make()",
            "import torch\nclass R:\n    def run(self):\n        return torch.empty(8, device='cuda')\nr = R()",
        ],
    ),
}
# Rules with a file of their own: tests/test_lint_outputs.py, test_lint_replay.py and test_lint_text.py.
ELSEWHERE = {"large-payload", "input-as-output", "output-replay", "reused-output"}


def rules_found(source: str) -> set[str]:
    return {finding.rule for finding in lint_source(source, "submission.py")}


def test_every_rule_has_cases():
    assert set(CASES) | ELSEWHERE == {rule.name for rule in RULES}
    assert all(bad and good for bad, good in CASES.values())


@pytest.mark.parametrize(("rule", "source"), [(rule, s) for rule, (bad, _) in CASES.items() for s in bad])
def test_a_rule_finds(rule, source):
    assert rule in rules_found(source)


@pytest.mark.parametrize(("rule", "source"), [(rule, s) for rule, (_, good) in CASES.items() for s in good])
def test_a_rule_leaves_alone(rule, source):
    assert rule not in rules_found(source)
