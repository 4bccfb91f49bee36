"""Inputs on which a wrong or dishonest MLA kernel shows itself. truth.py offers them to the harness's probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from reference import generate_input, pack_input
from task import QK_HEAD_DIM, SM_SCALE, V_HEAD_DIM, input_t

# Lengths around tile edges of 64, the shortest there is, and one short of a kilo-token.
EDGE_LENGTHS = (1, 63, 64, 65, 1023)


def _parts(data: input_t) -> dict[str, Any]:
    q, kv_data, qo_indptr, kv_indptr, config = data
    return {
        "q": q,
        "kv": kv_data["bf16"],
        "qo_indptr": qo_indptr,
        "kv_indptr": kv_indptr,
        "q_seq_len": config["q_seq_len"],
        "kv_seq_len": config["kv_seq_len"],
    }


def changed_parts(data: input_t, other: input_t, *, ragged: bool) -> Iterator[tuple[str, input_t]]:
    """From `data` on, one thing changed at a time and kept: q, the KV values, the KV scales, the indptr.

    First a little of each, at random places, for whoever looks at a sample of the values only: one head of one
    query, and one KV row in 64, which is an error of sqrt(2 / 64) = 0.18 in an output that does not follow.
    other: another draw of the same case. ragged: whether uneven sequences are allowed; without it the indptr
    stays as it is.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    for turn in (1, 2):
        q, kv_data = _one_head(q, other[0]), _one_row_in_64(kv_data, other[1])
        yield f"one head's q and one KV row in 64 ({turn})", (q, kv_data, qo_indptr, kv_indptr, config)
    q = other[0]
    yield "q", (q, kv_data, qo_indptr, kv_indptr, config)
    # The bytes change and every scale stays: the other draw's values in this draw's quantisation.
    scale, block_scales = kv_data["fp8"][1], kv_data["mxfp4"][1]
    fp8, packed = other[1]["fp8"][0], other[1]["mxfp4"][0]
    moved = {"bf16": other[1]["bf16"], "fp8": (fp8, scale), "mxfp4": (packed, block_scales)}
    yield "KV values", (q, moved, qo_indptr, kv_indptr, config)
    # Twice as large is an error of 1 for a scale that was kept. More would make the softmax so sharp that one row's
    # error in e4m3 arithmetic is a matter of luck, and no limit fair.
    raised = (block_scales.view(torch.uint8) + 1).view(block_scales.dtype)
    scaled = {"bf16": other[1]["bf16"], "fp8": (fp8, scale * 2), "mxfp4": (packed, raised)}
    yield "KV scale × 2", (q, scaled, qo_indptr, kv_indptr, config)
    if ragged and kv_indptr.numel() > 2:
        # The first sequence loses its tail; the others stay as long as the case says, and the last rows go unused.
        uneven = kv_indptr.clone()
        uneven[1:] -= max(1, int(kv_indptr[1]) // 3)
        yield "kv_indptr", (q, scaled, qo_indptr, uneven, config)


def _one_head(q: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    changed = q.clone()
    query, head = (int(torch.randint(size, ())) for size in q.shape[:2])
    changed[query, head] = other[query, head]
    return changed


def _one_row_in_64(kv_data: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """KV with random rows taken from another draw, in every format; the scales stay."""
    rows = torch.randperm(kv_data["bf16"].shape[0])[::64].to(kv_data["bf16"].device)

    def mixed(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        changed = old.clone()
        as_bytes = (changed.view(torch.uint8), new.view(torch.uint8))
        as_bytes[0][rows] = as_bytes[1][rows]
        return changed

    return {
        "bf16": mixed(kv_data["bf16"], other["bf16"]),
        "fp8": (mixed(kv_data["fp8"][0], other["fp8"][0]), kv_data["fp8"][1]),
        "mxfp4": (mixed(kv_data["mxfp4"][0], other["mxfp4"][0]), kv_data["mxfp4"][1]),
    }


def hard_values(arguments: Mapping[str, int]) -> Iterator[tuple[str, input_t]]:
    """Values that break careless arithmetic while the softmax stays ordinary, or just because it does not.

    In the first two q·k is of the usual size, so that rounding costs what it always costs. On the CPU a long case
    has one sequence here: interpreting takes seconds, and these are about values, not about sequences.
    """
    on_cpu_and_long = not torch.cuda.is_available() and int(arguments["kvseqlen"]) > 4096
    base = generate_input(**{**arguments, "batchsize": 1} if on_cpu_and_long else arguments)
    parts = _parts(base)
    q, kv = parts["q"], parts["kv"]
    yield "q up to 4e4, KV scale 1e-6", pack_input(**{**parts, "q": q * 1e4, "kv": kv * 1e-4})
    yield "q down to 1e-5, KV scale 1e3", pack_input(**{**parts, "q": q * 1e-5, "kv": kv * 1e5})
    yield "peaky rows and one huge logit", pack_input(**{**parts, "q": _peaked(parts)})
    yield "another sm_scale", pack_input(**parts, sm_scale=0.7 * SM_SCALE)
    yield "constant V", pack_input(**{**parts, "kv": _constant_values(kv)})


def _peaked(parts: Mapping[str, Any]) -> torch.Tensor:
    """q such that one key a head, from the first to the last, stands above others: by 8 nats (even heads) or 200."""
    q, kv, kv_indptr = parts["q"].float(), parts["kv"].float(), parts["kv_indptr"].tolist()
    peaked = 0.05 * q
    queries = parts["qo_indptr"].tolist()
    for sequence in range(len(kv_indptr) - 1):
        begin, end = kv_indptr[sequence], kv_indptr[sequence + 1]
        for head in range(q.shape[1]):
            key = kv[begin + (end - begin - 1) * head // (q.shape[1] - 1), 0]
            height = 8.0 if head % 2 == 0 else 200.0
            peaked[queries[sequence] : queries[sequence + 1], head] += key * height / (SM_SCALE * key.square().sum())
    return peaked.to(torch.bfloat16)


def _constant_values(kv: torch.Tensor) -> torch.Tensor:
    """KV whose first 512 dims are the same for every token: the output must be exactly that row, however weighted."""
    constant = kv.clone()
    constant[..., :V_HEAD_DIM] = kv[:1, :, :V_HEAD_DIM]
    return constant


# Decisive keys in one sequence and call: one that is skipped is an error of 1 / sqrt(128) = 0.088, over every limit.
DECISIVE_KEYS = 128


def sensitive_keys(arguments: Mapping[str, int]) -> Iterator[tuple[str, input_t]]:
    """Inputs whose output hangs on one random key in each block of 16 keys (64 on the CPU, for time's sake).

    These keys share one direction among the 64 dims that are no values, and q points along it, so that they carry
    nearly all of the weight, about equally, while their values stay random. The last key is always among them.
    """
    base = generate_input(**arguments)
    parts = _parts(base)
    q, kv, kv_indptr = parts["q"], parts["kv"], parts["kv_indptr"].tolist()
    generator = torch.Generator().manual_seed(int(arguments["seed"]))
    block = 16 if q.device.type == "cuda" else 64
    length = kv_indptr[1]
    blocks = -(-length // block)
    turns = -(-blocks // DECISIVE_KEYS)
    direction = torch.randn(QK_HEAD_DIM - V_HEAD_DIM, generator=generator).to(q.device)
    direction /= direction.norm()
    pointed = 0.05 * q.float()
    # With a component of 14 in each decisive key its score is 24 · 14 / 24 = 14 nats over the others'.
    pointed[..., V_HEAD_DIM:] += 24.0 * direction
    for turn in range(turns):
        starts = torch.arange(turn, blocks, turns) * block
        raised = kv.clone()
        for begin in kv_indptr[:-1]:
            tokens = (starts + torch.randint(block, starts.shape, generator=generator)).clamp(max=length - 1)
            tokens[-1] = length - 1
            raised[begin + tokens.to(q.device), 0, V_HEAD_DIM:] = (direction * 14.0).to(torch.bfloat16)
        name = f"{len(starts)} keys, one in a block of {block}, turn {turn + 1} of {turns}"
        yield name, pack_input(**{**parts, "q": pointed.to(torch.bfloat16), "kv": raised})


def hard_shapes(
    arguments: Mapping[str, int], q_seq_lens: tuple[int, ...], *, ragged: bool
) -> Iterator[tuple[str, input_t]]:
    """Uneven lengths up to the case's own, and the other q lengths that a file declares."""
    longest = int(arguments["kvseqlen"])
    lengths = [length for length in EDGE_LENGTHS if length < longest] + [longest]
    if ragged:
        yield f"kv lengths {', '.join(map(str, lengths))}", _uneven(arguments, 1, lengths)
    for q_seq_len in q_seq_lens:
        if q_seq_len > 1:
            short = [length for length in lengths if length <= 1024] if ragged else [min(longest, 1024)] * 2
            yield f"q_seq_len {q_seq_len}", _uneven(arguments, q_seq_len, short)


def _uneven(arguments: Mapping[str, int], q_seq_len: int, lengths: list[int]) -> input_t:
    base = generate_input(batchsize=1, qseqlen=q_seq_len * len(lengths), kvseqlen=sum(lengths), seed=arguments["seed"])
    device = base[0].device
    kv_indptr = torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32)
    qo_indptr = torch.arange(len(lengths) + 1, dtype=torch.int32, device=device) * q_seq_len
    return pack_input(base[0], base[1]["bf16"], qo_indptr, kv_indptr, q_seq_len, int(arguments["kvseqlen"]))
