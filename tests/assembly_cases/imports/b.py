import typing
from cmath import sqrt
from collections import defaultdict as Table
from math import (
    ceil,
    floor,  # down
)

import numpy as np

if typing.TYPE_CHECKING:
    from decimal import Decimal


def custom_kernel(data: "dict[str, typing.Any]") -> "Decimal":
    table = Table(int)
    table["x"] += data["x"]
    return [dict(table), ceil(1.5) + floor(1.5), sqrt(-data["x"]), np.e]
