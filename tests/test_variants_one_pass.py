"""The two variants that read each KV byte once: right for any lengths and in every plan, without hazards."""

from __future__ import annotations

import pytest
import torch
from test_variants_truth import ROOT, errors, exact_attention, interpreted, load_variant, make_input, quantise

VARIANTS = ("fp8_one_pass", "mxfp4_one_pass")
BOTH = pytest.mark.parametrize("name", VARIANTS)
# Weights in e4m3 cost 0.02 (fp8_one_pass), weights in float16 0.002: the limits of docs/checking.md.
LIMIT = {"fp8_one_pass": 0.05, "mxfp4_one_pass": 0.01}
PLANS = {"fp8_one_pass": "ONE_PASS_PLANS", "mxfp4_one_pass": "FP4_PLANS"}
DECODE = {"fp8_one_pass": "decode_fp8_once", "mxfp4_one_pass": "decode_mxfp4_once"}


def with_kv(data: tuple, kv: torch.Tensor) -> tuple:
    """`data` with the FP8 and the MXFP4 of `kv`, (total_kv, 1, 576) float32."""
    from reference import quantize_mxfp4

    return (data[0], {"fp8": quantise(kv), "mxfp4": quantize_mxfp4(kv.bfloat16())}, *data[2:])


def both_formats(lengths: list[int], kv_seq_len: int | None = None, seed: int = 0) -> tuple:
    data = make_input(lengths, kv_seq_len=kv_seq_len, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    return with_kv(data, torch.randn(sum(lengths), 1, 576, generator=generator))


def truth_of(name: str, data: tuple) -> torch.Tensor:
    """The float64 attention of the KV that the variant reads."""
    from reference import dequantize_mxfp4

    if name == "fp8_one_pass":
        return exact_attention(data)
    packed, scales = data[1]["mxfp4"]
    values = dequantize_mxfp4(packed.view(torch.uint8)[:, 0].view(packed.dtype), scales, torch.float64)
    return exact_attention((data[0], {"fp8": (values[:, None], torch.ones(1))}, *data[2:]))


def worst(name: str, data: tuple, output: torch.Tensor) -> float:
    assert (output.shape, output.dtype) == ((data[0].shape[0], 16, 512), torch.bfloat16)
    assert bool(output.isfinite().all())
    return max(errors(output, truth_of(name, data)))


def error_of_call(name: str, lengths: list[int], kv_seq_len: int | None = None) -> float:
    data = both_formats(lengths, kv_seq_len)
    return worst(name, data, load_variant(name).custom_kernel(data))


@BOTH
@pytest.mark.parametrize("lengths", [[1, 63, 64, 65], [127, 128, 129, 300, 1], [17] * 8, [40] * 3])
def test_any_lengths_and_any_batch(name: str, lengths: list[int]) -> None:
    # Around the borders of a tile, shorter than a split; batches of 4, 5, 8 and 3: each way to number the programs.
    assert interpreted(error_of_call, name, lengths) < LIMIT[name]


def errors_of_plans(name: str) -> dict[str, float]:
    """The error of each plan of the variant's table, on two sequences that do not divide by anything."""
    module = load_variant(name)
    data = both_formats([777, 130])
    decode = getattr(module, DECODE[name])
    return {label: worst(name, data, decode(data, plan)) for label, plan in getattr(module, PLANS[name]).items()}


@BOTH
def test_each_plan_is_right(name: str) -> None:
    for label, error in interpreted(errors_of_plans, name).items():
        assert error < LIMIT[name], label


def plans(name: str) -> dict[str, tuple]:
    return {label: tuple(plan) for label, plan in getattr(load_variant(name), PLANS[name]).items()}


@BOTH
def test_there_is_a_plan_for_each_benchmark_shape(name: str) -> None:
    from harness.problem.problem import open_problem

    assert set(interpreted(plans, name)) == {shape.label for shape in open_problem(ROOT).shapes}


def programs_in_order(name: str, batch: int, parts: int) -> list[tuple[int, int]]:
    """(sequence, part) of each program's number, from the variant's own placing."""
    import triton
    import triton.language as tl

    module = load_variant(name)
    place, spread = module.placed_on_xcd, module.xcds_for_each(batch, parts)

    @triton.jit
    def record(out, PARTS: tl.constexpr, SPREAD: tl.constexpr):  # noqa: N803
        sequence, part = place(tl.program_id(0), PARTS, SPREAD)
        tl.store(out + 2 * tl.program_id(0), sequence)
        tl.store(out + 2 * tl.program_id(0) + 1, part)

    record.fn.__globals__["place"] = place
    out = torch.full((batch * parts, 2), -1, dtype=torch.int32)
    record[(batch * parts,)](out, PARTS=parts, SPREAD=spread)
    return [tuple(pair) for pair in out.tolist()]


@BOTH
@pytest.mark.parametrize(("batch", "parts"), [(4, 16), (32, 8), (256, 1), (8, 2), (3, 4), (2, 16), (5, 1), (1, 8)])
def test_each_part_has_one_program(name: str, batch: int, parts: int) -> None:
    placed = interpreted(programs_in_order, name, batch, parts)
    assert sorted(placed) == [(sequence, part) for sequence in range(batch) for part in range(parts)]


@BOTH
@pytest.mark.parametrize(("batch", "parts"), [(32, 8), (64, 4), (256, 64), (8, 2)])
def test_parts_of_a_sequence_have_numbers_of_one_xcd(name: str, batch: int, parts: int) -> None:
    # Programs are dealt to the 8 XCDs in turn, so the number modulo 8 is the XCD.
    placed = interpreted(programs_in_order, name, batch, parts)
    for sequence in range(batch):
        assert len({number % 8 for number, (owner, _) in enumerate(placed) if owner == sequence}) == 1


def hard_error(name: str, kind: str) -> float:
    lengths = [300, 17]
    data = both_formats(lengths)
    kv = torch.randn(sum(lengths), 1, 576, generator=torch.Generator().manual_seed(7))
    q, config = data[0], data[4]
    if kind == "rows of very different size":
        kv *= torch.logspace(-18, 18, sum(lengths), base=2)[:, None, None]
        config["sm_scale"] = 1e-7
    elif kind == "blocks of very different size":
        kv *= torch.logspace(-12, 12, 18, base=2).repeat_interleave(32)
        config["sm_scale"] = 1e-5
    elif kind == "a KV of zeros":
        kv.zero_()
    elif kind == "large q, small KV":
        q *= 1e4
        kv *= 1e-4
    elif kind == "small q, large KV":
        q *= 1e-5
        kv *= 1e3
    data = with_kv(data, kv)
    output = load_variant(name).custom_kernel(data)
    if kind == "a KV of zeros":
        return float(output.abs().max())
    return worst(name, data, output)


@pytest.mark.parametrize(
    "kind",
    ["rows of very different size", "blocks of very different size", "a KV of zeros", "large q, small KV",
     "small q, large KV"],
)  # fmt: skip
def test_mxfp4_keeps_its_digits_whatever_the_scales(kind: str) -> None:
    # float16 reaches from 2^-24 to 2^16: without a reference for each token these spans overflow or vanish.
    assert interpreted(hard_error, "mxfp4_one_pass", kind) < LIMIT["mxfp4_one_pass"]


@pytest.mark.parametrize("kind", ["large q, small KV", "small q, large KV"])
def test_fp8_keeps_its_digits(kind: str) -> None:
    assert interpreted(hard_error, "fp8_one_pass", kind) < LIMIT["fp8_one_pass"]


def error_with_scale_layout(columns: int, padded: bool) -> float:
    """MXFP4 scales with so many columns (18 used); padded: a view into rows of one more."""
    data = both_formats([70, 5])
    packed, scales = data[1]["mxfp4"]
    wide = torch.full((scales.shape[0], columns + padded), 255, dtype=torch.uint8)  # 255 is NaN
    wide[:, :18] = scales.view(torch.uint8)[:, :18]
    view = wide[:, :columns].view(scales.dtype)
    data = (data[0], {**data[1], "mxfp4": (packed, view)}, *data[2:])
    return worst("mxfp4_one_pass", data, load_variant("mxfp4_one_pass").custom_kernel(data))


@pytest.mark.parametrize(("columns", "padded"), [(18, False), (24, False), (19, False), (24, True), (18, True)])
def test_mxfp4_honours_the_layout_of_the_scales(columns: int, padded: bool) -> None:
    assert interpreted(error_with_scale_layout, columns, padded) < LIMIT["mxfp4_one_pass"]


def error_after_change(name: str, change: str) -> tuple[float, float, bool]:
    """The error after a change in place, what the earlier output would show, and whether that output was kept."""
    module = load_variant(name)
    data = both_formats([300, 17])
    q, kv_data, _, kv_indptr, config = data
    first = module.custom_kernel(data)
    copy = first.clone()
    if change == "kv":
        fresh = both_formats([300, 17], seed=5)[1]
        for key in ("fp8", "mxfp4"):
            for held, new in zip(kv_data[key], fresh[key], strict=True):
                held.view(torch.uint8).copy_(new.view(torch.uint8))
    elif change == "q":
        q.copy_(torch.randn_like(q))
    elif change == "kv_indptr":
        kv_indptr[1] = 100
    elif change == "sm_scale":
        config["sm_scale"] *= 3
    second = module.custom_kernel(data)
    stale = max(errors(first, truth_of(name, data)))
    return worst(name, data, second), stale, torch.equal(first, copy) and first.data_ptr() != second.data_ptr()


@BOTH
@pytest.mark.parametrize("change", ["kv", "q", "kv_indptr", "sm_scale"])
def test_a_second_call_sees_what_changed_and_leaves_the_first_output(name: str, change: str) -> None:
    error, stale, kept = interpreted(error_after_change, name, change)
    assert error < LIMIT[name] < stale
    assert kept


def refusal(name: str, change: str) -> str:
    q, kv_data, *rest = both_formats([40])
    config = rest[-1]
    if change == "two queries":
        config["q_seq_len"] = 2
    elif change == "float32 q":
        q = q.float()
    elif change == "fnuz":
        kv_data["fp8"] = (kv_data["fp8"][0].view(torch.float8_e4m3fnuz), kv_data["fp8"][1])
    try:
        load_variant(name).custom_kernel((q, kv_data, *rest))
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("fp8_one_pass", "two queries", "q_seq_len 2"),
        ("mxfp4_one_pass", "two queries", "q_seq_len 2"),
        ("mxfp4_one_pass", "float32 q", "torch.float32"),
        ("fp8_one_pass", "fnuz", "float8_e4m3fnuz"),
    ],
)
def test_other_inputs_are_refused_by_name(name: str, change: str, named: str) -> None:
    message = interpreted(refusal, name, change)
    assert named in message
    assert "\n" not in message
