"""Raises SystemExit with code 0."""

ADVERSARY = {
    "class": "exit",
    "caught_by": ["isolation"],
    "needs": "cpu",
    "why": "leaving politely is no answer either",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    raise SystemExit(0)
