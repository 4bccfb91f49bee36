"""aiter's two schedulers of the persistent kernels, in plain Python integers.

Source: aiter f3be04a12a, csrc/kernels/mla/metadata/v1_0_device.cuh and v1_2_device.cuh, for 16 heads on the
256 compute units of an MI355X. Lengths are in pages; a row of `work` is what one workgroup does at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

# Compute units of an MI355X: one workgroup of the persistent kernel runs on each.
COMPUTE_UNITS = 256

# v1_0 gives no split fewer keys than this (v1_0_device.cuh, get_local_splits).
MIN_KEYS_PER_SPLIT = 196

# v1_0 joins a last split of up to this many keys to the one before it.
MAX_JOINED_TAIL = 4

# The slot of a work row whose result goes straight into the output.
DIRECT = -1


@dataclass
class Schedule:
    """What a scheduler writes; lists hold only the entries that the real one writes.

    work: rows (batch, slot, q start, q end, kv start, kv end, keys after kv end, 0); slot is DIRECT or the row of
        the partial results. work_indptr: 257 offsets into `work`, one range for each workgroup. reduce_indptr:
        batch + 1 offsets into `partial_map`. final_map: {sequence: (q start, q end)}, absent where left unwritten.
    """

    work: list[tuple[int, int, int, int, int, int, int, int]] = field(default_factory=list)
    work_indptr: list[int] = field(default_factory=lambda: [0])
    reduce_indptr: list[int] = field(default_factory=lambda: [0])
    final_map: dict[int, tuple[int, int]] = field(default_factory=dict)
    partial_map: list[int] = field(default_factory=list)


def equal_splits(kv_indptr: Sequence[int], q_length: int, granularity: int, max_split: int) -> Schedule:
    """The v1_0 schedule (`fast_mode=False, intra_batch_mode=True`): equal splits of each sequence.

    `kv_indptr` is (batch + 1) offsets from 0; every length must be at least MIN_KEYS_PER_SPLIT (the GPU divides
    by zero below). A sequence that ends in one split after the join keeps its tail out of it, as the real one does.
    """
    schedule = Schedule()
    batch_size = len(kv_indptr) - 1
    splits_per_unit = -(-COMPUTE_UNITS // batch_size)
    for batch in range(batch_size):
        begin, end = kv_indptr[batch], kv_indptr[batch + 1]
        blocks = -(-(end - begin) // granularity)
        wanted = min((end - begin) // MIN_KEYS_PER_SPLIT, splits_per_unit, max_split)
        payload = -(-blocks // wanted)
        splits = -(-blocks // payload)
        tail = (end - begin) % (payload * granularity)
        if 0 < tail <= MAX_JOINED_TAIL and splits > 1:
            splits -= 1
        q_range = (batch * q_length, (batch + 1) * q_length)
        for split in range(splits):
            start = begin + split * payload * granularity
            stop = min(start + payload * granularity, end)
            if end - stop <= MAX_JOINED_TAIL and splits > 1:
                stop = end
            slot = DIRECT if splits == 1 else len(schedule.work) * q_length
            schedule.work.append((batch, slot, *q_range, start, stop, end - stop, 0))
            schedule.partial_map.append(slot)
        schedule.reduce_indptr.append(len(schedule.work))
        schedule.final_map[batch] = q_range
    schedule.work_indptr = _dealt_in_order(len(schedule.work))
    return schedule


def _dealt_in_order(works: int) -> list[int]:
    """Offsets that deal `works` rows to the workgroups in order; the first ones get one more."""
    each, more = divmod(works, COMPUTE_UNITS)
    return [unit * each + min(unit, more) for unit in range(COMPUTE_UNITS + 1)]


@dataclass(frozen=True)
class Paging:
    """How keys are counted: `page_size` keys a page, and the filled part of each sequence's last page."""

    page_size: int
    last_page_lengths: Sequence[int]

    @property
    def overhead(self) -> int:
        """What the greedy scheduler adds to each piece of work, in blocks."""
        return max(1, -(-16 // self.page_size))

    def keys_after(self, batch: int, pages: int) -> int:
        """Keys from the end of a piece to the end of its sequence, `pages` pages later."""
        if self.page_size == 1 or pages == 0:
            return pages
        return (pages - 1) * self.page_size + self.last_page_lengths[batch]


def greedy(
    kv_indptr: Sequence[int], q_indptr: Sequence[int], paging: Paging, granularity: int, max_split: int
) -> Schedule:
    """The v1_2 schedule (`fast_mode=True`): each workgroup takes the same payload from the sequences in order.

    `kv_indptr` and `q_indptr` are (batch + 1) offsets from 0. `max_split` below 0 means no limit. A sequence that
    fits whole into what is left of a workgroup is direct and leaves its row of `final_map` unwritten.
    """
    schedule = Schedule()
    batch_size = len(kv_indptr) - 1
    overhead = paging.overhead
    blocks = [-(-(kv_indptr[b + 1] - kv_indptr[b]) // granularity) for b in range(batch_size)]
    pieces = COMPUTE_UNITS if max_split < 0 else min(COMPUTE_UNITS, max_split * batch_size)
    payload = -(-sum(count + overhead for count in blocks) // pieces) + overhead

    batch, done, slots = 0, 0, []
    next_slot = 0
    for _ in range(COMPUTE_UNITS):
        remaining = payload
        while batch < batch_size:
            left = blocks[batch] - done
            whole = remaining >= left + overhead
            if not whole and remaining <= overhead:
                break
            take = left if whole else remaining - overhead
            start = kv_indptr[batch] + done * granularity
            stop = min(start + take * granularity, kv_indptr[batch + 1])
            q_range = (q_indptr[batch], q_indptr[batch + 1])
            slot = DIRECT if whole and not slots else next_slot
            after = paging.keys_after(batch, kv_indptr[batch + 1] - stop)
            schedule.work.append((batch, slot, *q_range, start, stop, after, 0))
            if slot != DIRECT:
                slots.append(slot)
                next_slot += q_range[1] - q_range[0]
            if not whole:
                done += take
                break
            remaining -= left + overhead
            if slots:
                schedule.final_map[batch] = q_range
                schedule.partial_map.extend(slots)
            schedule.reduce_indptr.append(len(schedule.partial_map))
            batch, done, slots = batch + 1, 0, []
        schedule.work_indptr.append(len(schedule.work))
    return schedule
