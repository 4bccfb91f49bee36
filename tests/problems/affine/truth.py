"""The exact answer of the affine problem."""

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
    return output


def row_name(index):
    return f"row {index}"


def slice_arguments(arguments):
    kept = min(arguments["rows"], 4)
    return {**arguments, "rows": kept}, None if kept == arguments["rows"] else f"{kept} of {arguments['rows']} rows"


def bytes_needed(data, declaration):
    return data[0].numel() * 8


def truth(data, declaration):
    x, config = data
    return x.double() * config["slope"] + 1
