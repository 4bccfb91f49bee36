"""Returns the first 512 dims of q over 24 and reads no KV."""

ADVERSARY = {
    "class": "q/24",
    "caught_by": ["exact", "fresh-values", "key-sensitivity", "hard-values", "floor"],
    "needs": "cpu",
    "why": "for normal inputs q/24 is what attention gives on average; the platform's rule passes it for all shapes",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    q = data[0]
    return (q[..., :512] / 24).contiguous()
