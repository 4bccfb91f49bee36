"""A problem whose kernel has a known length: the device waits by its own timer, then adds one."""

import torch


def generate_input(spin_ns, seed):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    return (torch.randn(256, generator=generator, device=device), {"spin_ns": spin_ns})


def ref_kernel(data):
    x, _ = data
    return x + 1


def check_implementation(data, output):
    good = torch.allclose(output, ref_kernel(data))
    return good, "" if good else "mismatch found!"
