from __future__ import annotations

import os.path
import sys
from collections import OrderedDict as Table
from math import floor, sqrt  # noqa: F401
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction  # only for the checker


def custom_kernel(data: dict[str, Any]) -> Fraction:
    return [os.path.basename("/a/b"), sys.byteorder, Table(x=data["x"]), floor(sqrt(data["x"])), np.pi]
