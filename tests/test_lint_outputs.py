"""What the data-flow rules say of inputs: handed back as the result they are found, computed from they are not."""

from __future__ import annotations

import textwrap

import pytest

from harness.lint import lint_source

PASSED_THROUGH = {
    "the input itself": """
        def custom_kernel(data):
            return data
    """,
    "one of the input's tensors": """
        def custom_kernel(data):
            return data[0]
    """,
    "a slice and a cast": """
        def custom_kernel(data):
            q, *rest = data
            return q[:, :, :512].to(torch.bfloat16)
    """,
    "a reshaped view through a helper": """
        def _run(q, kv):
            x = q.reshape(-1, 576)
            return x.narrow(1, 0, 512)

        def custom_kernel(data):
            q, kv_data, *_ = data
            return _run(q, kv_data["bf16"])
    """,
    "through a starred call": """
        def _run(q, kv_data, *rest):
            return q.clone()

        def custom_kernel(data):
            return _run(*data)
    """,
    "on one way only": """
        def custom_kernel(data):
            q, kv, *_ = data
            if q.shape[0] > 64:
                return torch.clone(q)
            return attend(q, kv)
    """,
    "in a tuple": """
        def custom_kernel(data):
            q, kv, *_ = data
            out = torch.matmul(q, kv)
            return out, q
    """,
    "by a lambda": """
        custom_kernel = lambda data: data[0].float()
    """,
    "by a method": """
        class Model:
            def forward(self, data):
                return data[0].detach()

        custom_kernel = Model()
    """,
    "through a dictionary": """
        def custom_kernel(data):
            state = {"q": data[0], "out": torch.empty(1)}
            return state["q"]
    """,
    "through an attribute": """
        def custom_kernel(data):
            return data.q.mT
    """,
}

COMPUTED = {
    "a fresh buffer": """
        def custom_kernel(data):
            q = data[0]
            out = torch.empty_like(q)
            kernel[(8,)](q, out)
            return out
    """,
    "arithmetic on the input": """
        def custom_kernel(data):
            return data[0] * 2
    """,
    "a name that held the input": """
        def custom_kernel(data):
            out = data[0]
            out = attend(out)
            return out
    """,
    "an output buffer of the caller": """
        def custom_kernel(data):
            x, out = data
            if x.numel() > 0:
                kernel[(8,)](x, out)
            return out
    """,
    "an output buffer reached by its address": """
        def custom_kernel(data):
            x, out = data
            launch(x.data_ptr(), out.data_ptr())
            return out
    """,
    "schedules that are not returned": """
        _schedules = {}

        def custom_kernel(data):
            q, kv, _, indptr, _ = data
            key = (q.shape, indptr.data_ptr())
            if key not in _schedules:
                _schedules[key] = plan(indptr)
            out = torch.empty_like(q)
            kernel[(8,)](q, kv, _schedules[key], out)
            return out
    """,
    "a schedule returned by a helper only": """
        _schedules = {}

        def _schedule(indptr):
            key = tuple(indptr.tolist())
            if key not in _schedules:
                _schedules[key] = plan(indptr)
            return _schedules[key]

        def custom_kernel(data):
            return attend(data, _schedule(data[3]))
    """,
    "a compiled kernel kept by shape": """
        _compiled = {}

        def custom_kernel(data):
            run = _compiled.get(data[0].shape)
            if run is None:
                run = _compiled[data[0].shape] = build(data[0].shape)
            return run(data)
    """,
    "a module loaded once": """
        _module = None

        def _load():
            global _module
            if _module is None:
                _module = build()
            return _module

        def custom_kernel(data):
            return _load().forward(data[0])
    """,
    "stored and returned in one go, never read": """
        _log = []

        def custom_kernel(data):
            out = attend(data)
            _log.append(out.shape)
            return out
    """,
    "kept, but computed anew on every way": """
        _last = {}

        def custom_kernel(data):
            _last["out"] = attend(data)
            return _last["out"]
    """,
    "a constant table": """
        TABLE = {64: 4, 256: 8}

        def custom_kernel(data):
            return attend(data, TABLE[64])
    """,
    "scratch of an object": """
        class Runner:
            def __init__(self):
                self.scratch = None

            def run(self, q):
                if self.scratch is None:
                    self.scratch = torch.empty_like(q)
                out = torch.empty_like(q)
                kernel[(8,)](q, self.scratch, out)
                return out

        runner = Runner()

        def custom_kernel(data):
            return runner.run(data[0])
    """,
    "packed arguments": """
        def _run(state):
            q, out = state
            kernel[(8,)](q, out)
            return out

        def custom_kernel(data):
            return _run((data[0], torch.empty_like(data[0])))
    """,
    "recursion": """
        def _run(data, depth):
            return _run(data, depth - 1) if depth else attend(data)

        def custom_kernel(data):
            return _run(data, 3)
    """,
}

RULES = {"input-as-output", "output-replay", "reused-output"}


def results(source: str) -> set[str]:
    return {finding.rule for finding in lint_source(textwrap.dedent(source), "submission.py")} & RULES


@pytest.mark.parametrize("name", PASSED_THROUGH)
def test_an_input_returned_as_the_result_is_found(name):
    assert results(PASSED_THROUGH[name]) == {"input-as-output"}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_computed_result_is_left_alone(name):
    assert results(COMPUTED[name]) == set()


def test_a_file_that_is_too_much_to_follow_gives_no_result_finding_and_no_error():
    deep = "def custom_kernel(data):\n    x = data[0]\n" + "    x = f(x, x)\n" * 8_000 + "    return data[0]\n"
    assert results(deep) == set()
