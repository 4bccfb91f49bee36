"""What a right answer to this problem is: the float64 attention of the KV that a submission declares to read.

The harness finds this file beside task.yml and calls the functions below (harness/checking/truth.py says what
each one owes); nothing else in the harness knows about attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from probe_inputs import changed_parts, hard_shapes, hard_values, sensitive_keys
from reference import E8M0_DTYPE, FP4X2_DTYPE, dequantize_mxfp4, quantize_fp8
from task import QK_HEAD_DIM, V_HEAD_DIM, input_t

__all__ = ["changed_parts", "hard_shapes", "hard_values", "sensitive_keys"]

KV_FORMATS = ("bf16", "fp8", "mxfp4")
# Largest relative error, of the whole output and of the worst (query, head) row, by what q or P is rounded to
# at worst. f16 and bf16 arithmetic shows about 0.002 and e4m3 about 0.03; half of the keys skipped shows 0.4.
LIMITS = {"f16": 0.01, "fp8": 0.05}
# What the cost of a KV format is measured against.
FINEST = {"kv": "bf16"}
# Sequences that run where Triton is interpreted: an output row depends on its own sequence only, so a slice is exact.
SLICE_SEQUENCES = 2
_TOKENS_AT_ONCE = 1 << 16


def candidates() -> list[dict[str, Any]]:
    """Declarations to try for a file that declares nothing, the most usual first."""
    return [{"kv": kv, "rounding": "fp8"} for kv in ("fp8", "bf16", "mxfp4")]


def describe(declaration: Mapping[str, Any]) -> str:
    """The declared KV in a word or two: `fp8`, or `keys fp8, values bf16`."""
    keys, values = _formats(declaration)
    return keys if keys == values else f"keys {keys}, values {values}"


def limit(declaration: Mapping[str, Any]) -> float:
    """Largest error that passes. Raises ValueError for an unknown `rounding`."""
    rounding = declaration.get("rounding", "fp8")
    if rounding not in LIMITS:
        raise ValueError(f"rounding '{rounding}' (accepted: {', '.join(LIMITS)})")
    return LIMITS[rounding]


def arithmetic_error(data: input_t, declaration: Mapping[str, Any], expected: torch.Tensor) -> torch.Tensor | None:
    """The error that e4m3 arithmetic itself makes on these inputs, (rows, v_head_dim) float64; None for f16.

    q is rounded to e4m3 with one scale, and the weights, relative to the row's largest, without any: that is
    the platform's reference, which loses a quarter of the mass where one key stands 8 nats above 1023 others.
    A file that declares `rounding: fp8` may be 1.5 times as wrong as this; f16 has no such leave.
    """
    if declaration.get("rounding", "fp8") != "fp8":
        return None
    q, kv_data, qo_indptr, kv_indptr, config = data
    q_fp8, q_scale = quantize_fp8(q)
    rounded = (q_fp8.float().double() * q_scale.double(), kv_data, qo_indptr, kv_indptr, config)
    return rows(_attention(rounded, declaration, _weights_in_e4m3) - expected)


def output_shape(data: input_t) -> tuple[int, ...]:
    """(total_q, num_heads, v_head_dim)."""
    q = data[0]
    return (q.shape[0], q.shape[1], V_HEAD_DIM)


def output_dtype(data: input_t) -> torch.dtype:
    """bfloat16, always."""
    return torch.bfloat16


def output_device(data: input_t) -> torch.device:
    """Where the inputs are."""
    return data[0].device


def rows(output: torch.Tensor) -> torch.Tensor:
    """(total_q · num_heads, v_head_dim): one row for each (query, head)."""
    return output.reshape(-1, output.shape[-1])


def row_name(index: int) -> str:
    """Which (query, head) a row of `rows` is."""
    return f"query {index // 16}, head {index % 16}"


def slice_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The same case with its first sequences only, and how to say so (None when nothing was cut)."""
    batch = int(arguments["batchsize"])
    kept = min(batch, SLICE_SEQUENCES)
    note = None if kept == batch else f"{kept} of {batch} sequences"
    return {**arguments, "batchsize": kept}, note


def bytes_needed(data: input_t, declaration: Mapping[str, Any]) -> int:
    """Bytes that any kernel must move: q, both indptrs, the declared KV once (values within the keys), the output.

    MXFP4 counts the 18 scale bytes of a row that are used, not the 24 that aiter pads them to.
    """
    q, kv_data, qo_indptr, kv_indptr, _ = data
    keys, values = _formats(declaration)
    tokens = kv_data["bf16"].shape[0]
    per_value = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.5 + 1 / 32}
    kv_bytes = tokens * QK_HEAD_DIM * per_value[keys]
    if values != keys:
        kv_bytes += tokens * V_HEAD_DIM * per_value[values]
    indptr_bytes = qo_indptr.nbytes + kv_indptr.nbytes
    output_bytes = q.shape[0] * q.shape[1] * V_HEAD_DIM * 2
    return int(q.nbytes + indptr_bytes + kv_bytes + output_bytes)


def truth(data: input_t, declaration: Mapping[str, Any]) -> torch.Tensor:
    """The attention of bf16 q and the declared KV in float64: (total_q, 16, 512) float64, on the inputs' device.

    Honours qo_indptr, kv_indptr and sm_scale. Query i of n in a sequence sees keys up to `kv_len − n + i`, as
    the platform's reference asks of aiter (is_causal=True); with one query that is every key. A query that
    sees no key gives zeros. Works on 65,536 tokens at a time, or one sequence: temporaries are about 10 KB a token.
    Raises ValueError when the declaration names no known KV format.
    """
    return _attention(data, declaration, lambda weights: weights)


@torch.no_grad()
def _attention(
    data: input_t, declaration: Mapping[str, Any], rounded: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Attention in float64 with weights exp(score − largest) passed through `rounded` before they meet V."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    key_format, value_format = _formats(declaration)
    heads = q.shape[1]
    output = torch.zeros((q.shape[0], heads, V_HEAD_DIM), dtype=torch.float64, device=q.device)
    for sequences in _alike(qo_indptr.tolist(), kv_indptr.tolist()):
        if sequences.queries == 0 or sequences.length == 0:
            continue
        count, asked = sequences.count, sequences.queries
        begin, end = sequences.first_token, sequences.first_token + count * sequences.length
        keys = _dequantize(kv_data, key_format, begin, end).view(count, sequences.length, -1)
        values = keys
        if key_format != value_format:
            values = _dequantize(kv_data, value_format, begin, end).view(count, sequences.length, -1)
        rows_of = slice(sequences.first_query, sequences.first_query + count * asked)
        scores = q[rows_of].double().view(count, asked * heads, -1) @ keys.mT * config["sm_scale"]
        if asked > 1:
            unseen = _unseen(asked, sequences.length, q.device).repeat_interleave(heads, dim=0)
            scores.masked_fill_(unseen, -torch.inf)
        largest = scores.amax(dim=-1, keepdim=True)
        # A query that sees nothing has −inf everywhere: its weights are zero, and so is its output.
        weights = torch.exp(scores - torch.where(largest == -torch.inf, 0.0, largest))
        total = weights.sum(dim=-1, keepdim=True)
        attended = rounded(weights) @ values[..., :V_HEAD_DIM] / torch.where(total == 0, 1.0, total)
        output[rows_of] = attended.view(count * asked, heads, V_HEAD_DIM)
    return output


@dataclass(frozen=True)
class _Sequences:
    """Neighbouring sequences with the same numbers of queries and keys."""

    first_query: int
    first_token: int
    queries: int
    length: int
    count: int


def _alike(queries: list[int], tokens: list[int]) -> Iterator[_Sequences]:
    """The sequences in order, neighbours of one kind together as far as memory allows."""
    sequence, last = 0, len(tokens) - 1
    while sequence < last:
        kind = (queries[sequence + 1] - queries[sequence], tokens[sequence + 1] - tokens[sequence])
        most = max(1, _TOKENS_AT_ONCE // max(1, kind[1]))
        end = sequence + 1
        while end < last and end - sequence < most:
            if (queries[end + 1] - queries[end], tokens[end + 1] - tokens[end]) != kind:
                break
            end += 1
        yield _Sequences(queries[sequence], tokens[sequence], *kind, end - sequence)
        sequence = end


def _weights_in_e4m3(weights: torch.Tensor) -> torch.Tensor:
    return weights.float().to(torch.float8_e4m3fn).float().double()


def _unseen(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """(queries, keys) bool: True where a query must not look, aligned at the sequence's end."""
    seen = torch.ones((queries, keys), dtype=torch.bool, device=device).tril(diagonal=keys - queries)
    return ~seen


def _formats(declaration: Mapping[str, Any]) -> tuple[str, str]:
    kv = declaration.get("kv", "fp8")
    pair = (kv, kv) if isinstance(kv, str) else (kv.get("keys"), kv.get("values"))
    for name in pair:
        if name not in KV_FORMATS:
            raise ValueError(f"kv '{name}' (accepted: {', '.join(KV_FORMATS)}, or keys=…,values=… of them)")
    return pair


def _dequantize(kv_data: Mapping[str, Any], name: str, begin: int, end: int) -> torch.Tensor:
    """KV rows begin..end of one format, exactly, in float64: (end − begin, 576)."""
    if name == "bf16":
        return kv_data["bf16"][begin:end, 0].double()
    data, scale = kv_data[name]
    if name == "fp8":
        return data[begin:end, 0].to(torch.float32).double() * scale.double()
    packed = data.view(torch.uint8)[begin:end, 0].view(FP4X2_DTYPE)
    return dequantize_mxfp4(packed, scale.view(torch.uint8)[begin:end].view(E8M0_DTYPE), torch.float64)
