"""The cost model, term by term, on kernels whose figures are set by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_inspection_assembly import TEXT

from harness.inspection.assembly import parse
from harness.inspection.estimate import CHIPS, EMPTY_NS, LATENCY_NS, LAUNCH_NS, estimate_shapes
from harness.inspection.facts import Facts
from harness.inspection.inspect import Inspection, KernelReport, Launch
from harness.inspection.occupancy import Occupancy
from harness.inspection.sass import parse as parse_sass
from harness.inspection.work import Work, amd_work, nvidia_work

FACTS = Facts(256, 0, 32, 0, 0, 0, Occupancy(2, 8, "registers"), {}, {}, 0, {}, {}, 0, 0, 0, None)
# A turn of one wave: 100 instructions, 80 of them vector, 2 special ones, 320 matrix clocks, 4096 bytes through LDS,
# 8192 from memory.
LOOP = Work(100, 80, 2, 320.0, 4096, 8192)
REST = Work(50, 50, 0, 0.0, 0, 1024)
NOTHING = Work(0, 0, 0, 0.0, 0, 0)
# 256 programs of 10 turns: 4 waves of 8192 bytes each.
NEEDED = 256 * 10 * 4 * 8192


def inspection(loop: Work | None = LOOP, grid: int = 256, needed: int = NEEDED, warps: int = 4) -> Inspection:
    kernel = KernelReport("k", 1, {}, warps, 2, FACTS, (Launch("s", (grid,), {}),), (loop, REST))
    return Inspection("f", "gfx950", "3.6.0", (kernel,), {}, False, {"s": needed})


def test_each_term_is_what_the_hand_makes_it() -> None:
    (found,) = estimate_shapes(inspection())
    (terms,) = found.launches
    assert (terms.programs, terms.resident, terms.rounds, terms.iterations) == (256, 1, 1, 10)
    clock_ns = 1 / 2.4
    # 32 KB a turn at 8 TB/s over 256 units; 4 clocks an instruction and 16 a special one; 4 waves on 4 SIMDs.
    assert terms.memory == pytest.approx(10 * 4 * 8192 / (8e12 / 256) * 1e9)
    assert terms.vector == pytest.approx(10 * (4 * 100 + 16 * 2) * clock_ns)
    assert terms.matrix == pytest.approx(10 * 320 * clock_ns)
    assert terms.shared == pytest.approx(10 * 4 * 4096 / 128 * clock_ns)
    assert terms.rest == pytest.approx(max(4 * 50, 4 * 1024 / (8e12 / 256 / 2.4e9)) * clock_ns)
    launches = EMPTY_NS + LAUNCH_NS
    assert found.bound == pytest.approx(launches + NEEDED / 8e12 * 1e9)
    longest = max(terms.memory, terms.vector + terms.matrix, terms.shared)
    assert found.estimate == pytest.approx(launches + longest + terms.rest + LATENCY_NS)


@pytest.mark.parametrize("role", ["trial", "skipped"])
def test_what_a_tuner_only_tries_takes_no_time(role: str) -> None:
    plain = inspection()
    (kernel,) = plain.kernels
    tried = replace(kernel, launches=(Launch("s", (256,), {}, role=role),))
    assert estimate_shapes(replace(plain, kernels=(kernel, tried))) == estimate_shapes(plain)
    assert estimate_shapes(replace(plain, kernels=(tried,))) == []


def test_twice_the_bytes_are_twice_the_turns() -> None:
    (once,), (twice,) = estimate_shapes(inspection()), estimate_shapes(inspection(needed=2 * NEEDED))
    assert twice.launches[0].iterations == 2 * once.launches[0].iterations
    assert twice.launches[0].memory == pytest.approx(2 * once.launches[0].memory)
    assert twice.launches[0].rest == once.launches[0].rest


def test_programs_that_do_not_fit_at_once_wait_for_a_second_round() -> None:
    # Two waves a SIMD hold two programs of 4 waves on each of 256 units: 512 at once, and 513 in two rounds.
    (full,) = estimate_shapes(inspection(grid=512))
    (more,) = estimate_shapes(inspection(grid=513))
    assert (full.launches[0].resident, full.launches[0].rounds) == (2, 1)
    assert more.launches[0].rounds == 2


def test_a_last_round_that_is_not_full_does_not_raise_the_bound() -> None:
    # 513 programs are 3 on the fullest of 256 units, as 768 are; 512 are 2.
    loop = replace(LOOP, vector=10_000, instructions=10_000)
    one_turn = [
        estimate_shapes(inspection(loop, grid, grid * 4 * 8192))[0].launches[0].bound for grid in (512, 513, 768)
    ]
    assert one_turn[1] == one_turn[2] == pytest.approx(1.5 * one_turn[0])
    assert one_turn[0] == pytest.approx(2 * (4 * 10_000 + 16 * 2) / 2.4)


def test_few_programs_do_not_get_more_than_a_unit_can_take() -> None:
    (found,) = estimate_shapes(inspection(grid=1, needed=NEEDED // 256))
    assert found.launches[0].memory == pytest.approx(10 * 4 * 8192 / 64 / 2.4)


@pytest.mark.parametrize("grid", [1, 64, 256, 300, 4096])
@pytest.mark.parametrize(
    "loop", [LOOP, replace(LOOP, memory_bytes=64), replace(LOOP, instructions=10_000, vector=9_000)]
)
def test_the_bound_is_never_above_the_estimate(grid: int, loop: Work) -> None:
    (found,) = estimate_shapes(inspection(loop, grid))
    assert 0 < found.bound <= found.estimate


def test_a_shape_without_a_kernel_that_multiplies_is_left_out() -> None:
    assert estimate_shapes(inspection(loop=None)) == []


def test_bytes_through_tma_are_whole_rows_of_the_largest_tile() -> None:
    found = inspection(replace(LOOP, memory_bytes=None))
    kernel = replace(found.kernels[0], launches=(Launch("s", (256,), {}, (1000, 4 * 8192)),))
    (estimate,) = estimate_shapes(replace(found, kernels=(kernel,)))
    assert estimate.launches[0].iterations == 10


def test_work_is_counted_in_the_loop_that_multiplies_and_outside_it() -> None:
    loop, rest = amd_work(parse(TEXT))
    assert loop is not None
    # The outer of two loops with the same product, of 2·16·16·128 FLOP at 2048 a clock: its load belongs to the turn.
    assert (loop.matrix_clocks, loop.instructions, loop.memory_bytes) == (32.0, 5, 64 * 16)
    assert (rest.matrix_clocks, rest.memory_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("instruction", "clocks", "shared", "memory"),
    [
        ("v_mfma_scale_f32_16x16x128_f8f6f4", 32, 0, 0), ("v_mfma_f32_16x16x32_f16", 16, 0, 0),
        ("v_mfma_f32_32x32x16_bf16", 32, 0, 0), ("v_mfma_f32_16x16x32_fp8_fp8", 16, 0, 0),
        ("ds_read_b128", 0, 1024, 0), ("ds_read2_b64", 0, 1024, 0), ("ds_write2st64_b32", 0, 512, 0),
        ("ds_read_b64_tr_b8", 0, 512, 0), ("buffer_load_dwordx4", 0, 0, 1024), ("global_load_ushort", 0, 0, 128),
        ("buffer_load_ubyte", 0, 0, 64), ("global_store_dwordx4", 0, 0, 0), ("s_load_dwordx4", 0, 0, 0),
    ],
)  # fmt: skip
def test_each_amd_instruction_is_worth_what_it_moves(instruction: str, clocks: int, shared: int, memory: int) -> None:
    line = next(line for line in TEXT.splitlines() if "v_mfma" in line)
    loop, rest = amd_work(parse(TEXT.replace(line, f"\t{instruction} v0, v1, v2")))
    extra = 64 * 16  # the planted text's own load
    total = [(loop or NOTHING), rest]
    assert sum(each.matrix_clocks for each in total) == clocks
    assert sum(each.shared_bytes for each in total) == shared
    assert sum(each.memory_bytes or 0 for each in total) == memory + extra


SASS = """.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
.L_x_1:
        /*0020*/                   LDSM.16.MT88.4 R8, [R128] ;
        /*0030*/                   HGMMA.64x16x16.F32 R24, R8, gdesc[UR4], R24 ;
        /*0040*/                   MUFU.EX2 R3, R3 ;
        /*0050*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R6.64] ;
        /*0060*/              @!P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0070*/                   EXIT ;
        /*0080*/                   BRA `(.L_x_2) ;
"""


def test_machine_code_is_read_with_its_loops() -> None:
    loop, rest = nvidia_work(parse_sass(SASS))
    assert loop is not None
    # A wgmma of 64x16x16 would take 8 clocks by its FLOP; its A side takes 16.
    assert loop == Work(instructions=3, vector=3, special=1, matrix_clocks=16.0, shared_bytes=512, memory_bytes=512)
    assert (rest.memory_bytes, rest.matrix_clocks) == (512, 0)


@pytest.mark.parametrize(
    ("instruction", "bytes_a_thread"),
    [
        ("LDSM.16.M88", 4), ("LDSM.16.M88.2", 8), ("LDSM.16.MT88.4", 16), ("STSM.16.M88.4", 16), ("STSM.16.MT88", 4),
        ("LDS", 4), ("LDS.128", 16), ("LDS.U.64", 8), ("LDS.U8", 1), ("STS.U16", 2), ("STS.64", 8), ("LDSX", 0),
    ],
)  # fmt: skip
def test_each_access_to_shared_memory_is_worth_what_it_moves(instruction: str, bytes_a_thread: int) -> None:
    loop, _ = nvidia_work(parse_sass(SASS.replace("LDSM.16.MT88.4", instruction)))
    assert loop is not None
    assert loop.shared_bytes == 32 * bytes_a_thread


def test_a_tma_load_does_not_say_its_bytes() -> None:
    loop, _ = nvidia_work(parse_sass(SASS.replace("LDGSTS.E.BYPASS.128 [R5]", "UTMALDG.2D [UR8]")))
    assert loop is not None
    assert loop.memory_bytes is None


def test_both_targets_have_constants() -> None:
    from harness.inspection.inspect import TARGETS

    assert set(CHIPS) == set(TARGETS)
