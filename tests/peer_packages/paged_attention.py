"""What a paged MLA decode computes from its page table: the arithmetic of the stand-ins for the peers' packages."""

import torch


def attend(q, pages, table, lengths, scale):
    """q (batch, heads, 576), pages (n, page, 576), table (batch, m) and lengths (batch,) int32: (batch, heads, 512)."""
    assert table.dtype == torch.int32
    assert lengths.dtype == torch.int32
    out = torch.empty((q.shape[0], q.shape[1], 512))
    for sequence, length in enumerate(lengths.tolist()):
        used = -(-length // pages.shape[1])
        keys = pages[table[sequence, :used].long()].reshape(-1, 576)[:length].float()
        out[sequence] = torch.softmax(q[sequence].float() @ keys.T * scale, dim=-1) @ keys[:, :512]
    return out
