"""What the data-flow rules say of state: results of earlier calls, and memory that is handed out again."""

from __future__ import annotations

import textwrap

import pytest

from harness.lint import lint_source

REPLAYED = {
    "by address": """
        _cache = {}

        def custom_kernel(data):
            key = data[0].data_ptr()
            hit = _cache.get(key)
            if hit is not None:
                return hit
            out = attend(data)
            _cache[key] = out
            return out
    """,
    "by identity, with try": """
        _cache = {}

        def custom_kernel(data):
            try:
                return _cache[id(data[0])]
            except KeyError:
                _cache[id(data[0])] = out = attend(data)
                return out
    """,
    "by shape, stored after computing": """
        CACHE = {}

        def custom_kernel(data):
            q = data[0]
            if q.shape not in CACHE:
                CACHE[q.shape] = attend(data)
            return CACHE[q.shape]
    """,
    "by config through a helper": """
        _memo = {}

        def _lookup(config, data):
            key = tuple(config.values())
            if key in _memo:
                return _memo[key]
            _memo[key] = attend(data)
            return _memo[key]

        def custom_kernel(data):
            out = _lookup(data[4], data)
            return out
    """,
    "the last call's, in globals": """
        _last_q = None
        _last_out = None

        def custom_kernel(data):
            global _last_q, _last_out
            if data[0] is _last_q:
                return _last_out
            _last_q = data[0]
            _last_out = attend(data)
            return _last_out
    """,
    "the last call's, compared by content": """
        _last = {}

        def custom_kernel(data):
            q = data[0]
            if "q" in _last and torch.equal(_last["q"], q):
                return _last["out"]
            _last["q"], _last["out"] = q.clone(), attend(data)
            return _last["out"]
    """,
    "a copy of it": """
        _cache = {}

        def custom_kernel(data):
            key = data[0].data_ptr()
            if key not in _cache:
                _cache[key] = attend(data)
            return _cache[key].clone()
    """,
    "in a default argument": """
        def custom_kernel(data, _state=[None, None]):
            if _state[0] == data[0].data_ptr():
                return _state[1]
            _state[0], _state[1] = data[0].data_ptr(), attend(data)
            return _state[1]
    """,
    "in an attribute of the function": """
        def custom_kernel(data):
            if hasattr(custom_kernel, "out"):
                return custom_kernel.out
            custom_kernel.out = attend(data)
            return custom_kernel.out
    """,
    "in an object": """
        class Model:
            def __init__(self):
                self.out = None

            def __call__(self, data):
                if self.out is None:
                    self.out = attend(data)
                return self.out

        custom_kernel = Model()
    """,
    "in an object behind a function": """
        class Model:
            def __init__(self):
                self.out = None

            def run(self, data):
                if self.out is None:
                    self.out = attend(data)
                return self.out

        _model = Model()

        def custom_kernel(data):
            return _model.run(data)
    """,
    "in a closure": """
        def make():
            seen = {}

            def kernel(data):
                key = data[0].data_ptr()
                if key not in seen:
                    seen[key] = attend(data)
                return seen[key]

            return kernel

        custom_kernel = make()
    """,
    "in a list, searched": """
        _seen = []

        def custom_kernel(data):
            for q, out in _seen:
                if q is data[0]:
                    return out
            out = attend(data)
            _seen.append((data[0], out))
            return out
    """,
    "by functools.cache on the entry": """
        import functools

        @functools.lru_cache(maxsize=None)
        def custom_kernel(data):
            return attend(data)
    """,
    "by functools.cache on a helper": """
        import functools

        @functools.cache
        def _compute(q, kv):
            return attend(q, kv)

        def custom_kernel(data):
            return _compute(data[0], data[1])
    """,
    "with a walrus": """
        _cache = {}

        def custom_kernel(data):
            if (hit := _cache.get(data[0].data_ptr())) is not None:
                return hit
            return _cache.setdefault(data[0].data_ptr(), attend(data))
    """,
    "beside a schedule in one entry": """
        _cache = {}

        def custom_kernel(data):
            key = data[0].shape
            if key in _cache:
                entry = _cache[key]
                check(entry["schedule"])
                return entry["out"]
            out = attend(data)
            _cache[key] = {"schedule": 1, "out": out}
            return out
    """,
    "computed only when the input changed": """
        _buffers = {}

        def custom_kernel(data):
            q = data[0]
            out = _buffers.setdefault(q.shape, torch.empty_like(q))
            if _buffers.get("last") != q.data_ptr():
                kernel[(8,)](q, out)
                _buffers["last"] = q.data_ptr()
            return out
    """,
}

HANDED_OUT_AGAIN = {
    "one buffer by shape": """
        _buffers = {}

        def custom_kernel(data):
            q = data[0]
            if q.shape not in _buffers:
                _buffers[q.shape] = torch.empty_like(q)
            out = _buffers[q.shape]
            kernel[(8,)](q, out)
            return out[:4]
    """,
    "a captured graph's output": """
        _graphs = {}

        def custom_kernel(data):
            key = data[0].data_ptr()
            if key not in _graphs:
                _graphs[key] = capture(data)
            graph, out = _graphs[key]
            graph.replay()
            return out
    """,
    "a buffer by functools.cache": """
        import functools

        @functools.cache
        def _out(shape, device):
            return torch.empty(shape, device=device)

        def custom_kernel(data):
            out = _out(data[0].shape, data[0].device)
            torch.matmul(data[0], data[1], out=out)
            return out
    """,
    "a buffer filled in place": """
        _buffer = None

        def custom_kernel(data):
            global _buffer
            if _buffer is None:
                _buffer = torch.empty_like(data[0])
            _buffer.copy_(attend(data))
            return _buffer
    """,
    "a buffer written by slices": """
        _buffers = {}

        def custom_kernel(data):
            out = _buffers.setdefault(0, torch.empty_like(data[0]))
            for i in range(4):
                out[i] = attend(data, i)
            return out
    """,
}

RULES = {"input-as-output", "output-replay", "reused-output"}


def results(source: str) -> set[str]:
    return {finding.rule for finding in lint_source(textwrap.dedent(source), "submission.py")} & RULES


@pytest.mark.parametrize("name", REPLAYED)
def test_a_result_of_an_earlier_call_is_found(name):
    assert "output-replay" in results(REPLAYED[name])


@pytest.mark.parametrize("name", HANDED_OUT_AGAIN)
def test_memory_that_is_handed_out_again_is_a_warning_and_no_replay(name):
    assert results(HANDED_OUT_AGAIN[name]) == {"reused-output"}


def test_a_replay_says_which_name_keeps_it_and_where_it_is_stored():
    (finding,) = [f for f in lint_source(textwrap.dedent(REPLAYED["by address"]), "x.py") if f.rule == "output-replay"]
    assert finding.line == 8
    assert finding.fatal
    assert "`_cache` (stored in line 10)" in finding.message
