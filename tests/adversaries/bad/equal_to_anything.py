"""Returns an object with the shape of an output that is equal to anything."""

import torch

ADVERSARY = {
    "class": "__eq__ tricks",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "an output is its bytes, and this one has none",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


class Anything:
    """Looks like an output and answers every comparison with yes."""

    dtype = torch.bfloat16

    def __init__(self, like):
        self.shape, self.device = (like.shape[0], 16, 512), like.device

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = object.__hash__

    def __sub__(self, other):
        return 0

    __rsub__ = __sub__


def custom_kernel(data):
    return Anything(data[0])
