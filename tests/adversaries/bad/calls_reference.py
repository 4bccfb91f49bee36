"""Returns the platform's reference and declares f16."""

ADVERSARY = {
    "class": "reference used as the kernel",
    "caught_by": ["exact"],
    "needs": "cpu",
    "why": "the reference rounds q and P to FP8, which is not what is declared, while the platform's rule must pass it",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    import reference

    return reference.ref_kernel(data)
