"""Ends itself by a segmentation fault."""

import resource
import signal

ADVERSARY = {
    "class": "crash",
    "caught_by": ["isolation"],
    "needs": "cpu",
    "why": "a crash is a failed verdict with a reason",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}


def custom_kernel(data):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.raise_signal(signal.SIGSEGV)
