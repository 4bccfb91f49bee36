"""The exact answer of the spin problem, and the bytes that it moves."""

import torch


def candidates():
    return [{"rounding": "f32"}]


def describe(declaration):
    return "x"


def limit(declaration):
    return 1e-6


def output_shape(data):
    return tuple(data[0].shape)


def output_dtype(data):
    return torch.float32


def rows(output):
    return output.reshape(1, -1)


def row_name(index):
    return f"row {index}"


def slice_arguments(arguments):
    return dict(arguments), None


def bytes_needed(data, declaration):
    return data[0].numel() * 8


def truth(data, declaration):
    x, _ = data
    return x.double() + 1
