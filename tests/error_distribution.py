"""Prints the errors that right kernels show over 20 seeds: what the limits of docs/checking.md are measured against.

PYTHONPATH=. python tests/error_distribution.py
"""

from __future__ import annotations

import torch

import reference
import truth
from harness.checking.exact import relative_errors

SEEDS = 20
LENGTHS = (1024, 8192)


def in_bf16(data: reference.input_t) -> torch.Tensor:
    """Attention of the FP8 KV with bf16 operands and float32 sums: what `rounding: f16` means."""
    q, kv_data, _, kv_indptr, config = data
    kv, scale = kv_data["fp8"]
    output = torch.empty((*q.shape[:2], 512), dtype=torch.bfloat16)
    tokens = kv_indptr.tolist()
    for sequence in range(len(tokens) - 1):
        keys = kv[tokens[sequence] : tokens[sequence + 1], 0].float()
        scores = q[sequence].float() @ keys.T * (config["sm_scale"] * scale)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        attended = weights.bfloat16().float() @ keys[:, :512] * scale / weights.sum(dim=-1, keepdim=True)
        output[sequence] = attended.bfloat16()
    return output


def main() -> None:
    """One row for each arithmetic and length: median and largest of the whole output's and the worst row's error."""
    print("| arithmetic | kv | error: median, largest | worst row: median, largest | limit |")
    print("| --- | --- | --- | --- | --- |")
    kernels = {"f16": in_bf16, "fp8": reference.ref_kernel}
    for rounding, kernel in kernels.items():
        for length in LENGTHS:
            seen = []
            for seed in range(SEEDS):
                data = reference.generate_input(batchsize=2, qseqlen=1, kvseqlen=length, seed=seed)
                seen.append(relative_errors(kernel(data), truth.truth(data, {"kv": "fp8"}), truth.rows))
            whole, rows = sorted(e.whole for e in seen), sorted(e.worst_row for e in seen)
            middle = SEEDS // 2
            print(
                f"| {rounding} | {length} | {whole[middle]:.4f}, {whole[-1]:.4f} | {rows[middle]:.4f}, {rows[-1]:.4f} "
                f"| {truth.limit({'rounding': rounding})} |"
            )


if __name__ == "__main__":
    main()
