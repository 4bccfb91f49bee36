from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int = 8


class Plan(NamedTuple):
    warps: int


def tiles():
    found = []
    for rows in (16, 32):
        found.append(Tile(rows))
    return found


TILES = tiles()
PLAN = Plan(warps=4)
NAMES = []
for tile in TILES:
    NAMES.append(f"{tile.rows}x{tile.columns}")
assert PLAN.warps % 4 == 0
if PLAN.warps > 2:
    LIMIT = max(PLAN.warps, 8)
else:
    LIMIT = 0


def custom_kernel(data):
    return NAMES, PLAN.warps, LIMIT, TILES[0].rows
