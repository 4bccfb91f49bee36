"""Designs that the cost model is held against besides the variants: the same sources with other plans."""

from __future__ import annotations

from harness.assembly.candidates import read_candidates
from harness.assembly.plans import with_plan
from harness.errors import BrokenTask
from harness.problem.problem import Problem

# portable's own table of measured plans is left out, so that one setting holds on every shape: tile, warps, stages,
# programs that fill the device, parts of the value dims.
_TILES = '"sm_90": SM_90_QUARTERS,'
_TABLE = "SM_90_PLANS = {\n"
PORTABLE = {
    "portable_quarters": "TilePlan(64, 4, 3, 264, 4)",
    "portable_halves": "TilePlan(64, 4, 3, 264, 2)",
    "portable_short_tiles": "TilePlan(32, 4, 3, 264, 4)",
    "portable_long_tiles": "TilePlan(128, 8, 3, 132, 2)",
    "portable_half_filled": "TilePlan(64, 4, 3, 132, 4)",
    "portable_twice_filled": "TilePlan(64, 4, 3, 528, 4)",
}
# Candidates of variants/candidates.toml that change a plan on every shape.
CANDIDATES = {"fp8_eight_warps": "fp8_one_pass", "mxfp4_short_tiles": "mxfp4_one_pass"}


def designs(problem: Problem) -> dict[str, str]:
    """Name → source of each. Raises BrokenTask where portable no longer has what is exchanged here."""
    source = problem.variant("portable").source
    if source.count(_TILES) != 1 or source.count(_TABLE) != 1:
        raise BrokenTask("bench/cost_model_designs.py: variants/portable.py no longer has the plans exchanged there")
    without_table = source.replace(_TABLE, "SM_90_PLANS = {}\n_UNUSED = {\n")
    found = {name: without_table.replace(_TILES, f'"sm_90": {plan},') for name, plan in PORTABLE.items()}
    by_name = {candidate.name: candidate for candidate in read_candidates(problem)}
    for name, variant in CANDIDATES.items():
        changed = problem.variant(variant).source
        for label, (_, plan) in by_name[name].shapes.items():
            if plan is not None:
                changed = with_plan(changed, label, plan, variant)
        found[name] = changed
    return found
