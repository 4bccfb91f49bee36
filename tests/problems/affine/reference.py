"""A small problem with one input tensor and one number, for tests of the harness itself."""

import torch


def generate_input(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn((rows, columns), generator=generator), {"slope": 2.0})


def ref_kernel(data):
    x, config = data
    return x * config["slope"] + 1


def check_implementation(data, output):
    expected = ref_kernel(data)
    if output.shape != expected.shape:
        return False, "SIZE MISMATCH"
    good = torch.allclose(output, expected, rtol=0.1, atol=0.1)
    return good, "" if good else "mismatch found!\\nsecond line"
