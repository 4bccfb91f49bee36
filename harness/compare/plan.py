"""What will be measured, and in which order, fixed before the first call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from harness.compare.arm import ARMS, ArmName
from harness.errors import HarnessError

QUADS_PER_BLOCK = 5
LEAST_BLOCKS = 20

# The least p is 2 / (resamples + 1) = 0.0002, so that Holm over 200 shapes can still reach 0.05.
DEFAULT_RESAMPLES = 9999


@dataclass(frozen=True)
class Quad:
    """ABBA with a third arm: a random order of the three arms, then the same order backwards.

    calls: the six arms in the order of time. Each arm has the same mean position, so a linear drift cancels in
    every pair, and leaving out `a_copy` leaves ABBA or BAAB. draw: the number of the inputs of all six calls.
    """

    process: int
    block: int
    shape: str
    draw: int
    calls: tuple[ArmName, ...]


@dataclass(frozen=True)
class Plan:
    """A fixed amount of work: nothing that is measured decides when to stop.

    shapes: names, in the order in which each block visits them. blocks: per process and shape, at least 20.
    processes: repeats in fresh processes. warmup_s: least wall time of warming, in seconds, per process.
    seed: of the orders and of the resampling. Raises HarnessError for figures that cannot give a sound verdict.
    """

    shapes: tuple[str, ...]
    blocks: int = LEAST_BLOCKS
    processes: int = 1
    warmup_s: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.shapes:
            raise HarnessError("no shape to compare on: name at least one, or leave --shapes out for all of them")
        if len(set(self.shapes)) != len(self.shapes):
            raise HarnessError(f"a shape is named twice in {', '.join(self.shapes)}: name each once")
        if self.blocks < LEAST_BLOCKS:
            raise HarnessError(
                f"{self.blocks} blocks are too few for a verdict: at least {LEAST_BLOCKS} are needed, use --blocks"
            )
        if self.processes < 1:
            raise HarnessError(f"{self.processes} processes cannot run: at least 1 is needed, use --processes")
        if self.seed < 0:
            raise HarnessError(f"the seed {self.seed} is negative: give 0 or more")

    @property
    def measured_draws(self) -> int:
        """Draws 0 … n−1 are measured, each in one quad of every shape; warming takes the numbers from n on."""
        return self.processes * self.blocks * QUADS_PER_BLOCK

    def import_order(self, process: int) -> tuple[ArmName, ...]:
        """The order in which process number `process` imports the arms: reversed in every second process."""
        return ARMS if process % 2 == 0 else ARMS[::-1]

    def visits(self, process: int) -> Iterator[tuple[Quad, ...]]:
        """The quads of one process, block after block, and within a block shape after shape.

        Taking the shapes in turn within each block spreads every shape over the whole run. The orders are drawn
        independently for each quad: that is what makes the sign-flip test exact under any drift.
        """
        generator = random.Random(f"{self.seed}:{process}")
        for block in range(self.blocks):
            first_draw = (process * self.blocks + block) * QUADS_PER_BLOCK
            for shape in self.shapes:
                yield tuple(
                    Quad(process, block, shape, first_draw + number, _mirrored(generator))
                    for number in range(QUADS_PER_BLOCK)
                )


def _mirrored(generator: random.Random) -> tuple[ArmName, ...]:
    order = tuple(generator.sample(ARMS, len(ARMS)))
    return order + order[::-1]
