"""Returns zeros as a tensor that agrees with everything it is compared with."""

import torch

ADVERSARY = {
    "class": "tensor subclass",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "only a plain tensor has nothing but its values",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in (torch.isclose, torch.eq, torch.Tensor.eq, torch.Tensor.__eq__):
            return torch.ones_like(result)
        return True if func is torch.allclose else result


def custom_kernel(data):
    return torch.zeros((data[0].shape[0], 16, 512), dtype=torch.bfloat16, device=data[0].device).as_subclass(Agreeable)
