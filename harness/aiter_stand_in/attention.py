"""The arithmetic of aiter's MLA decode kernels (16 heads, one query token), for many pieces of work at once.

Source of the formulas: the machine code of aiter f3be04a12a (hsa/gfx950/mla), as far as it can be seen from outside:
tile sizes, order of roundings and the scale of each term. The order of additions inside a tile is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness.aiter_stand_in.rounding import Rounding

VALUE_DIM = 512

# float32 of log2(e), as the kernels hold it, and its float32 reciprocal.
LOG2E = 1.4426950216293335
INVERSE_LOG2E = 0.6931471824645996

# KV rows held in float32 at a time: 65536 rows of 576 are 151 MB.
MAX_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Arithmetic:
    """How one kernel computes: rows a tile, what P is rounded to, and its scales (float32, 0-d, on the device)."""

    tile_rows: int
    round_weights: Rounding
    q_scale: torch.Tensor
    kv_scale: torch.Tensor


@dataclass(frozen=True)
class Pieces:
    """Pieces of work: each takes tiles of keys at `first`, `first + stride`, … below `end` for one query row.

    q_rows, first, end: (pieces,) int64 on the device; positions count into kv_page_indices. stride: keys from one
    tile to the next (more than a tile where splits take turns).
    """

    q_rows: torch.Tensor
    first: torch.Tensor
    end: torch.Tensor
    stride: int

    def __len__(self) -> int:
        return len(self.q_rows)

    def take(self, which: torch.Tensor) -> Pieces:
        """The pieces at the given positions."""
        return Pieces(self.q_rows[which], self.first[which], self.end[which], self.stride)


@dataclass(frozen=True)
class KeyRows:
    """KV as the kernels see it: row `indices[position]` of `rows`, whatever the page size.

    rows: (pages, 576), the first key of each page; indices: (positions,) int32.
    """

    rows: torch.Tensor
    indices: torch.Tensor

    def gather(self, positions: torch.Tensor) -> torch.Tensor:
        """The rows at `positions`, (pieces, tile), as float32 (pieces, tile, 576)."""
        pages = self.indices[positions.reshape(-1)].long()
        if self.rows.dtype.itemsize == 1:
            picked = self.rows.view(torch.uint8)[pages].view(self.rows.dtype)
        else:
            picked = self.rows[pages]
        return picked.to(torch.float32).view(*positions.shape, self.rows.shape[1])


def attend(
    query: torch.Tensor, keys: KeyRows, pieces: Pieces, softmax_scale: float, arithmetic: Arithmetic
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Softmax attention of each piece: yields (which pieces, outputs, natural log-sum-exp) in parts.

    query: (rows, 16, 576) in its own dtype. Outputs (n, 16, 512) and log-sum-exp (n, 16) are float32, with the
    scales of q and KV in them. Memory is bounded: a part is as many pieces as MAX_ROWS_AT_ONCE allows.
    """
    if not len(pieces):
        return
    tiles = -(-(pieces.end - pieces.first) // pieces.stride)
    longest_first = torch.argsort(tiles, descending=True, stable=True)
    for which in longest_first.split(max(1, MAX_ROWS_AT_ONCE // arithmetic.tile_rows)):
        part = pieces.take(which)
        yield which, *_attend_part(query, keys, part, tiles[which].tolist(), softmax_scale, arithmetic)


def _attend_part(
    query: torch.Tensor,
    keys: KeyRows,
    pieces: Pieces,
    tiles: list[int],
    softmax_scale: float,
    arithmetic: Arithmetic,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One part, whose pieces are ordered by falling number of `tiles`, so that the active ones are a prefix."""
    device = query.device
    q = query[pieces.q_rows].to(torch.float32)
    scales = arithmetic.q_scale * arithmetic.kv_scale
    scale = torch.tensor(softmax_scale, dtype=torch.float32, device=device)
    exponent_scale = (LOG2E * scale) * scales
    maximum = torch.full(q.shape[:2], -math.inf, device=device)
    total = torch.zeros_like(maximum)
    output = torch.zeros((*q.shape[:2], VALUE_DIM), device=device)
    offsets = torch.arange(arithmetic.tile_rows, device=device)

    active = len(tiles)
    for tile in range(tiles[0]):
        while tiles[active - 1] <= tile:
            active -= 1
        positions = pieces.first[:active, None] + tile * pieces.stride + offsets
        inside = positions < pieces.end[:active, None]
        # A row past the end is masked; the first key stands in for it, so that nothing foreign is read.
        block = keys.gather(torch.where(inside, positions, pieces.first[:active, None]))
        scores = torch.bmm(q[:active], block.mT).masked_fill_(~inside[:, None, :], -math.inf)

        old = maximum[:active]
        new = torch.maximum(old, scores.amax(dim=-1))
        rescale = torch.exp2(torch.where(old == -math.inf, 0.0, old - new) * exponent_scale)
        weights = torch.exp2(_fused_exponent(scores, exponent_scale, new))
        total[:active] = rescale * total[:active] + weights.sum(dim=-1)
        output[:active] *= rescale[..., None]
        output[:active] += torch.bmm(arithmetic.round_weights(weights), block[..., :VALUE_DIM])
        maximum[:active] = new

    lse = maximum * (scale * scales) + torch.log2(total) * INVERSE_LOG2E
    return output * (arithmetic.kv_scale / total)[..., None], lse


def _fused_exponent(scores: torch.Tensor, exponent_scale: torch.Tensor, maximum: torch.Tensor) -> torch.Tensor:
    """scores·c − (maximum·c) with one rounding after the product, as the kernels' fused multiply-add has it."""
    subtracted = (maximum * exponent_scale).double()
    return (scores.double() * exponent_scale.double() - subtracted[..., None]).float()
