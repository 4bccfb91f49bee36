"""Multiplies."""

FACTOR = 5


def multiply(value):
    return value * FACTOR


def custom_kernel(data):
    return multiply(data["x"])
