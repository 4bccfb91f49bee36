"""A comparison in the JSON shape of `harness ab --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.compare.record import Comparison, Outcome
from harness.targets.provenance import Provenance


def origin_json(origin: Provenance, a_hash: str, b_hash: str, clear_bytes: int) -> dict[str, Any]:
    """What the times of a comparison depend on besides the kernels, to stand beside `comparison_json`.

    a_hash, b_hash: SHA-256 of the sources. clear_bytes: written before each timed call.
    """
    return {"a_hash": a_hash, "b_hash": b_hash, "clear_bytes": clear_bytes, "provenance": asdict(origin)}


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Plain numbers and strings; ratio is time of A over time of B, times in nanoseconds, differences as fractions.

    The samples are not in it: they are in the record. docs/comparing.md lists every key.
    """
    return {
        "a": comparison.a,
        "b": comparison.b,
        "shapes": [
            {"shape": each.shape, **_outcome(each), "a_ns": each.a_ns, "b_ns": each.b_ns} for each in comparison.shapes
        ],
        "geomean": _outcome(comparison.geomean),
        "delta": comparison.delta,
        "blocks": comparison.blocks,
        "quads_per_block": comparison.quads_per_block,
        "processes": comparison.processes,
        "seed": comparison.seed,
        "resamples": comparison.resamples,
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "ratio": outcome.ratio,
        "low": outcome.low,
        "high": outcome.high,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "noise_floor": outcome.noise_floor,
        "detectable": outcome.detectable,
        "p": outcome.p,
        "p_holm": outcome.p_holm,
    }
