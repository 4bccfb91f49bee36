#!POPCORN leaderboard amd-mixed-mla
"""Adds.

Second paragraph.
"""

import math

# How much.
STEP = 3  # three

# Alone between two statements.

LIMIT = {  # a table
    # its only row
    "low": 1,
}


# Above the helper.
def add(value):
    # Inside.
    return value + STEP  # behind
    # closing the block


def custom_kernel(data):
    """Docstring."""

    return math.floor(add(data["x"]) + LIMIT["low"])


# At the end.
