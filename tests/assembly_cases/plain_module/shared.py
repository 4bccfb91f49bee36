"""What both need."""

import math
import statistics

SCALE = 2.0
_calls = []


def scaled(value):
    """Counts its calls."""
    _calls.append(value)
    return SCALE * value * math.pi, len(_calls)


def pure(value):
    return value + 1


def not_needed(value):
    return statistics.mean(value)
