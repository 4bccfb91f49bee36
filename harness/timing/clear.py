"""The cache clear before a timed call: how many bytes it writes, and which sizes give an honest time."""

from __future__ import annotations

from harness.errors import MissingCapability

# Written before each timed call: far over any last-level cache (H200 60 MB, MI355X 256 MB), and long enough
# (2 ms at 4 TB/s) for the host to enqueue the call behind it.
CLEAR_BYTES = 8 << 30
# Twice the largest last-level cache (MI355X, 256 MB): below it, a part of the inputs may still lie in the cache.
LEAST_CLEAR_BYTES = 512_000_000
# What the platform's evaluator draws before each call: 16000 · 1024 · 1024 float32.
# Source: gpu-mode/reference-kernels, problems/amd_202602/eval.py (2026).
OFFICIAL_CLEAR_BYTES = 16000 * 1024 * 1024 * 4


def refuse_small_clear(clear_bytes: int) -> str | None:
    """Why a clear of so many bytes would not give the times of a cold cache; None where it does."""
    if clear_bytes >= LEAST_CLEAR_BYTES:
        return None
    return (
        f"{clear_bytes} bytes may leave inputs in the last-level cache (H200 60 MB, MI355X 256 MB), and the times "
        f"would be those of a warm one; give at least {LEAST_CLEAR_BYTES}, or 'official'"
    )


def check_official_clear_fits(free_bytes: int, gpu: str) -> None:
    """Raise MissingCapability where the platform's clear is larger than the device's free memory."""
    if free_bytes < OFFICIAL_CLEAR_BYTES:
        raise MissingCapability(
            f"--clear official writes {OFFICIAL_CLEAR_BYTES / 1e9:.1f} GB at once, and {gpu} has "
            f"{free_bytes / 1e9:.1f} GB free; leave --clear out for one of 8 GiB, which clears the same caches"
        )
