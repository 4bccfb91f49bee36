"""The parser of AMDGCN assembly, on planted text, and the rules of occupancy, on published figures."""

from __future__ import annotations

import pytest

from harness.inspection.assembly import Instruction, parse
from harness.inspection.facts import amd_facts
from harness.inspection.occupancy import amd_occupancy, nvidia_occupancy

# Two loops, one inside the other, a branch that leaves early, a place for the debugger, and a comment.
TEXT = """\
\t.text
\t.globl\tplanted
planted:
.Lfunc_begin0:
\t.file\t1 "/src" "kernel.py"
\t.file\t2 "standard.py"
\t.loc\t1 10 5
; %bb.0:
\ts_load_dwordx2 s[0:1], s[4:5], 0x0
\ts_cbranch_scc1 .LBB0_4
.Ltmp0:
\t.loc\t1 12 9 is_stmt 0
\ts_mov_b32 s2, 0
.LBB0_1:                                ; =>This Loop Header
\t.loc\t1 13 9
\tbuffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen ; a comment: s_endpgm
\t.loc\t2 40 3
\tv_mov_b32_e32 v5, 0
\t.loc\t1 13 9
.LBB0_2:
\tv_mfma_f32_16x16x128_f8f6f4 a[0:3], v[0:7], v[8:15], a[0:3]
\ts_cbranch_scc0 .LBB0_2
\ts_add_i32 s2, s2, 1
\ts_cbranch_scc0 .LBB0_1
\tglobal_store_short v[0:1], v2, off
.LBB0_4:
\ts_endpgm
.Lfunc_end0:
\t.size\tplanted, .Lfunc_end0-planted
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel planted
\t\t.amdhsa_kernarg_size 80
\t\t.amdhsa_accum_offset 12 ; a comment
\t\t.amdhsa_next_free_sgpr max(totalnumsgprs, 8)
\t.end_amdhsa_kernel
\t.section\t.AMDGPU.csdata
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .name: planted
    .vgpr_count: 16
    .agpr_count: 4
    .sgpr_count: 8
    .vgpr_spill_count: 0
    .sgpr_spill_count: 0
    .private_segment_fixed_size: 0
    .group_segment_fixed_size: 0
...
\t.end_amdgpu_metadata
"""


def test_instructions_stand_in_order_with_their_source_lines() -> None:
    code = parse(TEXT)
    assert code.name == "planted"
    found = [(each.mnemonic, each.line) for each in code.instructions]
    assert found[:4] == [
        ("s_load_dwordx2", 10), ("s_cbranch_scc1", 10), ("s_mov_b32", 12), ("buffer_load_dwordx4", 13),
    ]  # fmt: skip
    assert found[-1] == ("s_endpgm", 13)
    inlined = [each for each in code.instructions if each.file == "standard.py"]
    assert [(each.mnemonic, each.line) for each in inlined] == [("v_mov_b32_e32", 40)]
    assert sum(each.file == "kernel.py" for each in code.instructions) == len(found) - 1
    assert code.metadata["vgpr_count"] == 16
    assert next(each for each in code.instructions if each.mnemonic.startswith("buffer")).operands == (
        "v[0:3], v4, s[0:3], 0 offen"
    )


def test_the_directives_that_set_the_kernel_up_are_read_with_it() -> None:
    assert parse(TEXT).descriptor == {
        "kernarg_size": 80, "accum_offset": 12, "next_free_sgpr": "max(totalnumsgprs, 8)",
    }  # fmt: skip
    assert parse(TEXT.replace(".amdhsa_kernel planted", ".amdhsa_kernel another")).descriptor == {}


@pytest.mark.parametrize(
    ("operands", "arguments", "modifiers"),
    [
        ("", (), {}),
        ("0", ("0",), {}),
        (".LBB0_2", (".LBB0_2",), {}),
        ("v[0:3], v4, s[0:3], 0 offen offset:16", ("v[0:3]", "v4", "s[0:3]", "0"), {"offen": "", "offset": "16"}),
        ("v[0:1], off offset:-16 nt", ("v[0:1]", "off"), {"offset": "-16", "nt": ""}),
        ("vmcnt(0) lgkmcnt(3)", (), {"vmcnt": "0", "lgkmcnt": "3"}),
        ("hwreg(HW_REG_MODE, 23, 1), 1", ("hwreg(HW_REG_MODE, 23, 1)", "1"), {}),
        ("v1, -|v2|, v3 op_sel:[0,1,0] clamp", ("v1", "-|v2|", "v3"), {"op_sel": "[0,1,0]", "clamp": ""}),
        ("v1, v2 quad_perm:[1,0,3,2] row_mask:0xf", ("v1", "v2"), {"quad_perm": "[1,0,3,2]", "row_mask": "0xf"}),
        ("v1, v2 offset:swizzle(QUAD_PERM,0,1,2,3)", ("v1", "v2"), {"offset": "swizzle(QUAD_PERM,0,1,2,3)"}),
        ("a[0:3], v[0:7], v[8:15], 0 cbsz:4 blgp:2", ("a[0:3]", "v[0:7]", "v[8:15]", "0"), {"cbsz": "4", "blgp": "2"}),
    ],
)
def test_operands_are_told_from_modifiers(operands: str, arguments: tuple[str, ...], modifiers: dict[str, str]) -> None:
    instruction = Instruction("v_any", operands, None)
    assert instruction.arguments == arguments
    assert instruction.modifiers == modifiers


@pytest.mark.parametrize(
    ("operands", "said"),
    [
        ("v0,, v1", "an operand is missing"),
        ("v0 clamp, v1", "stands before the last operand"),
        ("v0, v1 mul:2 mul:4", "is not understood"),
        ("v0, v1 &", "is not understood"),
        ("v[0:1, v2", "brackets do not match"),
    ],
)
def test_operands_of_another_form_are_refused(operands: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _ = Instruction("v_any", operands, None).modifiers


def test_blocks_end_at_branches_and_begin_at_their_targets() -> None:
    code = parse(TEXT)
    assert [(block.label, len(block.instructions)) for block in code.blocks] == [
        ("planted", 2), ("", 1), (".LBB0_1", 2), (".LBB0_2", 2), ("", 2), ("", 1), (".LBB0_4", 1),
    ]  # fmt: skip
    assert code.successors == ((6, 1), (2,), (3,), (3, 4), (2, 5), (6,), ())


def test_loops_are_found_with_what_is_inside_them_only() -> None:
    code = parse(TEXT)
    outer, inner = code.loops
    assert (outer.blocks, inner.blocks) == (frozenset({2, 3, 4}), frozenset({3}))
    assert [each.mnemonic for each in code.in_loop(inner)] == ["v_mfma_f32_16x16x128_f8f6f4", "s_cbranch_scc0"]
    assert "global_store_short" not in [each.mnemonic for each in code.in_loop(outer)]


def test_straight_code_has_no_loop() -> None:
    straight = TEXT.replace("\ts_cbranch_scc0 .LBB0_2\n", "").replace("\ts_cbranch_scc0 .LBB0_1\n", "")
    assert parse(straight).loops == ()


@pytest.mark.parametrize(
    "text", ["", "no assembly", TEXT.replace("- .name: planted", "- .name: planted\n  - .name: b")]
)
def test_text_that_is_not_one_kernel_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected the assembly of one kernel"):
        parse(text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("", ""), []),
        ((".vgpr_spill_count: 0", ".vgpr_spill_count: 7"), ["7 registers spilled"]),
        ((".private_segment_fixed_size: 0", ".private_segment_fixed_size: 12"), ["12 bytes of scratch a thread"]),
        ((".group_segment_fixed_size: 0", ".group_segment_fixed_size: 163840"), []),
        (
            (".group_segment_fixed_size: 0", ".group_segment_fixed_size: 163841"),
            ["163,841 bytes of shared memory, more than the 160 KB of LDS"],
        ),
    ],
)
def test_what_makes_a_kernel_unfit_is_named(change: tuple[str, str], said: list[str]) -> None:
    text = TEXT.replace(*change) if change[0] else TEXT
    facts = amd_facts({"assembly": text, "shared": 0, "warps": 4})
    assert list(facts.problems) == said
    assert facts.matrix_in_loop == {"v_mfma_f32_16x16x128_f8f6f4": 1}
    assert facts.wide_loads == {"buffer_load_dwordx4": 1}


@pytest.mark.parametrize(
    ("registers", "lds", "waves", "resident", "limit"),
    [
        # AMD's table of waves a SIMD by registers, 512 a lane: 64 or fewer give 8, 128 give 4, 256 give 2, above 1.
        (64, 0, 4, 8, "nothing"), (65, 0, 4, 7, "registers"), (128, 0, 4, 4, "registers"), (129, 0, 4, 3, "registers"),
        (256, 0, 4, 2, "registers"), (257, 0, 4, 1, "registers"), (512, 0, 4, 1, "registers"),
        # Two workgroups of 80 KB fill a compute unit's 160 KB; one of 81 KB leaves no room for a second.
        (32, 80 * 1024, 4, 2, "LDS"), (32, 81 * 1024, 4, 1, "LDS"), (32, 161 * 1024, 4, 0, "LDS"),
        # LDS is given out 2,048 bytes at a time: 26 granules fit three times into 80, and a byte more makes it 27.
        (32, 26 * 2048, 4, 3, "LDS"), (32, 26 * 2048 + 1, 4, 2, "LDS"),
        # A workgroup of 8 waves takes two of a SIMD's places at once: 7 places hold 3 of them.
        (72, 0, 8, 6, "registers"), (264, 0, 8, 0, "registers"),
    ],
)  # fmt: skip
def test_waves_a_simd(registers: int, lds: int, waves: int, resident: int, limit: str) -> None:
    found = amd_occupancy(registers, lds, waves)
    assert (found.resident, found.most, found.limit) == (resident, 8, limit)


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "resident", "limit"),
    [
        # The CUDA occupancy calculator for compute capability 9.0.
        (32, 0, 8, 64, "nothing"), (33, 0, 8, 48, "registers"), (64, 0, 8, 32, "registers"),
        (255, 0, 8, 8, "registers"), (128, 0, 4, 16, "registers"), (32, 113 * 1024, 4, 8, "shared memory"),
        (32, 114 * 1024, 4, 4, "shared memory"), (32, 227 * 1024, 4, 4, "shared memory"), (16, 0, 1, 32, "blocks"),
        # 21 warps of 96 registers would fill the multiprocessor, but each of its 4 sub-cores holds 5.
        (96, 0, 1, 20, "registers"), (96, 0, 2, 20, "registers"), (96, 0, 4, 20, "registers"),
    ],
)  # fmt: skip
def test_warps_a_multiprocessor(registers: int, shared: int, warps: int, resident: int, limit: str) -> None:
    found = nvidia_occupancy(registers, shared, warps)
    assert (found.resident, found.most, found.limit) == (resident, 64, limit)
