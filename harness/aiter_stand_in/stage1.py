"""`mla_decode_stage1_asm_fwd`: attention of each piece of work, before the merge of the splits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from harness.aiter_stand_in.attention import VALUE_DIM, Arithmetic, KeyRows, Pieces, attend
from harness.aiter_stand_in.checks import FP8_TYPES, Checks
from harness.aiter_stand_in.rounding import to_bfloat16, to_bfloat16_and_back, to_fp8_and_back
from harness.aiter_stand_in.schedule import COMPUTE_UNITS

HEADS = 16
HEAD_DIM = 576

# The kernels reach KV through a 32-bit byte offset.
MAX_KV_BYTES = 2**32

# Rows of a tile: the kernels without a schedule take 64; with one, fp8 queries take 128 and bf16 queries 16.
UNSCHEDULED_TILE_ROWS = 64
FP8_QUERY_TILE_ROWS = 128
BF16_QUERY_TILE_ROWS = 16


@torch.no_grad()
def mla_decode_stage1_asm_fwd(
    Q: torch.Tensor,  # noqa: N803  (aiter's own names)
    KV: torch.Tensor,  # noqa: N803
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    num_kv_splits_indptr: torch.Tensor | None,
    work_meta_data: torch.Tensor | None,
    work_indptr: torch.Tensor | None,
    work_info_set: torch.Tensor | None,
    max_seqlen_q: int,
    page_size: int,
    nhead_kv: int,
    softmax_scale: float,
    splitData: torch.Tensor,  # noqa: N803
    splitLse: torch.Tensor,  # noqa: N803
    output: torch.Tensor,
    q_scale: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
) -> None:
    """Attention of 16 heads for one query token a sequence, into `splitData`, `splitLse` and `output`.

    Q: (tokens, 16, 576) fp8 or bf16, contiguous; KV: (pages, page, 1, 576) fp8 or bf16; qo_indptr, kv_indptr:
    (batch + 1,) int32; kv_page_indices: (pages used,) int32; kv_last_page_lens: (batch,) int32; work_*: what
    get_mla_metadata_v1 wrote; q_scale, kv_scale: float32, one element. output: (tokens, 16, 512) bf16.

    With num_kv_splits_indptr=None the work rows are run: a row with a slot writes float32 rows of splitData
    (slots, 1, 16, 512) and splitLse (slots, 1, 16, 1, natural log), a direct one its row of output. Else each
    sequence's 64-row tiles are dealt round robin to the splits of splitData (tokens, splits, 16, 512) and
    splitLse (tokens, splits, 16, 1); with one split and fp8 queries splitData is bf16 and splitLse stays unwritten.

    Like the real kernels it takes `page_size` as 1 and the page indices as given: of each page only the first key is
    visited. Raises TypeError and StandInError: see `Checks`, and the refusals in the code by name.
    """
    checks = Checks.on_device_of("mla_decode_stage1_asm_fwd", "Q", Q)
    q = checks.tensor("Q", Q, (*FP8_TYPES, torch.bfloat16), (None, HEADS, HEAD_DIM))
    kv = checks.tensor("KV", KV, (*FP8_TYPES, torch.bfloat16), (None, None, 1, HEAD_DIM), contiguous=False)
    _check_call(checks, kv, nhead_kv, max_seqlen_q, page_size)
    softmax_scale = checks.number("softmax_scale", softmax_scale)
    scheduled = num_kv_splits_indptr is None
    arithmetic = _arithmetic(checks, q, kv, scheduled, q_scale, kv_scale)
    checks.tensor("output", output, torch.bfloat16, (q.shape[0], HEADS, VALUE_DIM))

    batch_size = checks.tensor("qo_indptr", qo_indptr, torch.int32, (None,)).shape[0] - 1
    kv_offsets = checks.offsets("kv_indptr", kv_indptr, batch_size + 1)
    indices = checks.tensor("kv_page_indices", kv_page_indices, torch.int32, (None,))
    checks.tensor("kv_last_page_lens", kv_last_page_lens, torch.int32, (batch_size,))
    if scheduled:
        rows = _rows_to_run(checks, work_meta_data, work_indptr, work_info_set)
        work = _scheduled_work(checks, rows, arithmetic.tile_rows)
        slots = int(work.slots.max()) + 1 if len(work.slots) else 0
        checks.tensor("splitData", splitData, torch.float32, (None, 1, HEADS, VALUE_DIM))
        checks.tensor("splitLse", splitLse, torch.float32, (None, 1, HEADS, 1))
        checks.at_least("splitData", splitData.shape[0], slots, "slots")
        checks.at_least("splitLse", splitLse.shape[0], slots, "slots")
    else:
        splits = _check_split_buffers(checks, num_kv_splits_indptr, splitData, splitLse, batch_size, q)
        work = _unscheduled_work(checks, kv_offsets, splits, q.device)
    _check_reads(checks, q, kv, indices, work.pieces)

    keys = KeyRows(kv[:, 0, 0, :], indices)
    for which, outputs, lse in attend(q, keys, work.pieces, softmax_scale, arithmetic):
        part = work.slots[which]
        split, direct = part >= 0, part < 0
        if not scheduled and splitData.dtype == torch.bfloat16:
            splitData.view(-1, HEADS, VALUE_DIM)[part] = to_bfloat16(outputs)
            continue
        splitData.view(-1, HEADS, VALUE_DIM)[part[split]] = outputs[split]
        splitLse.view(-1, HEADS)[part[split]] = lse[split]
        output[work.pieces.q_rows[which][direct]] = to_bfloat16(outputs[direct])


@dataclass(frozen=True)
class Work:
    """Pieces of work and where each goes: `slots` (pieces,) int64 is a row of splitData, or −1 for the output."""

    pieces: Pieces
    slots: torch.Tensor


def _check_call(checks: Checks, kv: torch.Tensor, nhead_kv: int, max_seqlen_q: int, page_size: int) -> None:
    checks.that(checks.integer("nhead_kv", nhead_kv) == 1, f"nhead_kv is {nhead_kv}, expected 1")
    checks.that(
        checks.integer("max_seqlen_q", max_seqlen_q) == 1,
        f"max_seqlen_q={max_seqlen_q}: the stand-in knows the kernels for one query token a sequence only",
    )
    checks.power_of_two("page_size", page_size)
    checks.that(kv.stride(3) == 1, "the last dimension of KV is not contiguous")
    kv_bytes = kv.shape[0] * kv.stride(0) * kv.dtype.itemsize
    checks.that(kv_bytes <= MAX_KV_BYTES, f"KV spans {kv_bytes} bytes; the kernels reach {MAX_KV_BYTES}")


def _arithmetic(
    checks: Checks,
    q: torch.Tensor,
    kv: torch.Tensor,
    scheduled: bool,
    q_scale: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
) -> Arithmetic:
    """The kernel that the real dispatch would pick (hsa/gfx950/mla/mla_asm.csv). Raises for pairs that it lacks."""
    one = torch.ones((), dtype=torch.float32, device=q.device)
    pair = f"{str(q.dtype).removeprefix('torch.')} queries with {str(kv.dtype).removeprefix('torch.')} KV"
    if q.dtype in FP8_TYPES:
        checks.that(kv.dtype == q.dtype, f"{pair}: no such kernel")
        checks.that(q_scale is not None and kv_scale is not None, "fp8 queries need both q_scale and kv_scale")
        scales = checks.scale("q_scale", q_scale).view(()), checks.scale("kv_scale", kv_scale).view(())
        tile_rows = FP8_QUERY_TILE_ROWS if scheduled else UNSCHEDULED_TILE_ROWS
        return Arithmetic(tile_rows, to_fp8_and_back(q.dtype), *scales)
    if kv.dtype in FP8_TYPES:
        checks.that(scheduled, f"{pair} without a schedule: no such kernel")
        checks.that(kv_scale is not None, "fp8 KV needs kv_scale (the real kernel reads a stray address without it)")
        return Arithmetic(BF16_QUERY_TILE_ROWS, to_bfloat16_and_back, one, checks.scale("kv_scale", kv_scale).view(()))
    tile_rows = BF16_QUERY_TILE_ROWS if scheduled else UNSCHEDULED_TILE_ROWS
    return Arithmetic(tile_rows, to_bfloat16_and_back, one, one)


def _rows_to_run(
    checks: Checks,
    work_meta_data: torch.Tensor | None,
    work_indptr: torch.Tensor | None,
    work_info_set: torch.Tensor | None,
) -> torch.Tensor:
    """The rows of work_info_set that the workgroups run, (rows, 8) int64 on the CPU.

    The real kernel follows the two addresses in work_meta_data, wherever they lead; here they must be those of
    the two buffers that are passed.
    """
    checks.that(work_indptr is not None and work_info_set is not None, "work_indptr and work_info_set are needed")
    info = checks.tensor("work_info_set", work_info_set, torch.int32, (None, 8))
    offsets = checks.offsets("work_indptr", work_indptr, COMPUTE_UNITS + 1)
    if work_meta_data is not None:
        checks.tensor("work_meta_data", work_meta_data, torch.uint64, (2,))
        held = work_meta_data.view(torch.int64).tolist()
        checks.that(
            held == [work_indptr.data_ptr(), info.data_ptr()],
            "work_meta_data holds the addresses of other buffers than work_indptr and work_info_set, so the kernel"
            " would follow stale ones; call get_mla_metadata_v1 with the buffers that you pass here",
        )
    checks.at_least("work_info_set", info.shape[0], offsets[-1], "rows")
    return info[: offsets[-1]].cpu().long()


def _scheduled_work(checks: Checks, rows: torch.Tensor, tile_rows: int) -> Work:
    _, slots, q_start, q_end, first, end, _, _ = rows.unbind(1)
    checks.that(bool((end > first).all()), "a work row has no keys; the kernel would drop the rows after it")
    checks.that(bool((q_end - q_start == 1).all()), "a work row has other than one query token")
    device = checks.device
    return Work(Pieces(q_start.to(device), first.to(device), end.to(device), tile_rows), slots.to(device))


def _check_split_buffers(
    checks: Checks,
    num_kv_splits_indptr: torch.Tensor,
    split_data: torch.Tensor,
    split_lse: torch.Tensor,
    batch_size: int,
    q: torch.Tensor,
) -> int:
    """The number of splits of a call without a schedule, where every buffer fits it."""
    offsets = checks.offsets("num_kv_splits_indptr", num_kv_splits_indptr, batch_size + 1)
    checks.that(q.shape[0] == batch_size, f"Q has {q.shape[0]} tokens for {batch_size} sequences, expected one each")
    splits = split_data.shape[1] if isinstance(split_data, torch.Tensor) and split_data.dim() == 4 else None
    narrow = splits == 1 and q.dtype in FP8_TYPES
    wanted = torch.bfloat16 if narrow else torch.float32
    checks.tensor("splitData", split_data, wanted, (batch_size, splits, HEADS, VALUE_DIM))
    checks.tensor("splitLse", split_lse, torch.float32, (batch_size, splits, HEADS, 1))
    most = max(later - earlier for earlier, later in pairwise(offsets))
    checks.that(most <= splits, f"num_kv_splits_indptr gives a sequence {most} splits; splitData has {splits}")
    return splits


def _unscheduled_work(checks: Checks, kv_offsets: list[int], splits: int, device: torch.device) -> Work:
    """Each sequence's tiles dealt round robin to its splits; a split without a tile writes nothing."""
    starts = torch.tensor(kv_offsets[:-1])[:, None]
    ends = torch.tensor(kv_offsets[1:])[:, None]
    checks.that(bool((ends > starts).all()), "a sequence has no keys")
    first = starts + torch.arange(splits) * UNSCHEDULED_TILE_ROWS
    used = (first < ends).reshape(-1)
    batches = torch.arange(len(starts)).repeat_interleave(splits)
    pieces = Pieces(
        batches[used].to(device),
        first.reshape(-1)[used].to(device),
        ends.expand_as(first).reshape(-1)[used].to(device),
        UNSCHEDULED_TILE_ROWS * splits,
    )
    return Work(pieces, torch.arange(len(starts) * splits)[used].to(device))


def _check_reads(checks: Checks, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, pieces: Pieces) -> None:
    """Raise where a piece would read past Q, the page indices or KV."""
    if not len(pieces):
        return
    row, last = int(pieces.q_rows.max()), int(pieces.end.max())
    checks.that(row < q.shape[0], f"the work reaches query row {row}; Q has {q.shape[0]}")
    checks.that(int(pieces.first.min()) >= 0 and int(pieces.q_rows.min()) >= 0, "a work row starts below 0")
    checks.at_least("kv_page_indices", indices.shape[0], last, "entries")
    low, high = (int(edge) for edge in indices[:last].aminmax())
    checks.that(
        low >= 0 and high < kv.shape[0], f"kv_page_indices run from {low} to {high}; KV has {kv.shape[0]} pages"
    )
