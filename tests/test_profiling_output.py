"""ncu's and rocprofv3's output as these tools write it, read back into figures, and the table made of them.

The texts are written by hand in the format of docs.nvidia.com/nsight-compute (raw page, base units) and of
rocm.docs.amd.com, "Using rocprofv3" (counter_collection.csv).
"""

from __future__ import annotations

import pytest

from harness.errors import MissingCapability, WorkerFailed
from harness.profiling import ncu, rocprof
from harness.profiling.kernel_profile import KernelProfile, profile_table

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
NCU = f'''==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "decode": 0%....50%....100% - 9 passes
==PROF== Profiling "merge": 0%....50%....100% - 9 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","launch__registers_per_thread",\
"lts__t_sector_hit_rate.pct","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",\
"sm__warps_active.avg.pct_of_peak_sustained_active","{STALL.format("long_scoreboard")}","{STALL.format("wait")}",\
"{STALL.format("gmma")}","{STALL.format("barrier")}"
"","","","","","","","","","","","byte","byte","ns","register/thread","%","%","%","inst","inst","inst","inst"
"0","4711","python3.12","127.0.0.1","decode(float const*, int)","1","7","(128, 1, 1)","(264, 1, 1)","0","9.0",\
"1,208,483,840","16,777,216","283,000","254","12.50","34.20","12.40","4.10","0.70","1.25","0"
"1","4711","python3.12","127.0.0.1","merge","1","7","(128, 1, 1)","(256, 1, 1)","0","9.0",\
"8388608","4194304","4096","32","n/a","0","61.00","2.00","0.10","n/a","3.00"
==PROF== Disconnected from process 4711
'''
ROCPROF_HEADER = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"'
)
MARKER = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def dispatch(number: int, kernel: str, counter: str, value: float, nanoseconds: int) -> str:
    return (
        f'{number},{number},"Agent 2",1,36499,36499,67584,10,"{kernel}",256,65536,0,128,64,96,'
        f'"{counter}",{value},{1000 * number},{1000 * number + nanoseconds}'
    )


def run_of(counter: str, values: tuple[float, float], nanoseconds: tuple[int, int] = (800, 90)) -> str:
    """One run's CSV: a warm-up, the marker, and the call with its two kernels."""
    rows = [
        dispatch(1, "decode(float*)", counter, 1.0, 999),
        dispatch(2, MARKER, counter, 0.0, 5),
        dispatch(3, "decode(float*)", counter, values[0], nanoseconds[0]),
        dispatch(4, "merge", counter, values[1], nanoseconds[1]),
    ]
    return "\n".join([ROCPROF_HEADER, *rows]) + "\n"


def test_ncus_kernels_are_read_with_units_and_grouped_thousands():
    decode, merge = ncu.parse(NCU)
    assert decode.kernel == "decode(float const*, int)"
    assert decode.duration_ns == 283_000.0
    assert (decode.dram_read_bytes, decode.dram_write_bytes) == (1_208_483_840.0, 16_777_216.0)
    assert decode.dram_bandwidth == pytest.approx(1_225_261_056 / 283e-6)
    assert (decode.l2_hit, decode.matrix_pipe, decode.occupancy) == pytest.approx((0.125, 0.342, 0.124))
    assert decode.registers == 254
    assert decode.stalls == (("long_scoreboard", 4.1), ("gmma", 1.25), ("wait", 0.7))
    assert merge.l2_hit is None
    assert merge.stalls == (("barrier", 3.0), ("long_scoreboard", 2.0), ("wait", 0.1))


@pytest.mark.parametrize(
    ("unit", "text", "nanoseconds"),
    [("nsecond", "1500", 1500.0), ("us", "1.5", 1500.0), ("usecond", "1.5", 1500.0), ("second", "1.5e-06", 1500.0)],
)
def test_ncus_durations_are_nanoseconds_whatever_unit_its_version_prints(unit, text, nanoseconds):
    csv = f'"ID","Kernel Name","gpu__time_duration.sum"\n"","","{unit}"\n"0","k","{text}"\n'
    assert ncu.parse(csv)[0].duration_ns == pytest.approx(nanoseconds)


def test_every_metric_that_is_read_is_asked_for_and_gmma_only_where_it_exists():
    hopper = ncu.metrics("sm_90")
    header = NCU.splitlines()[3]
    assert all(name in hopper for name in header.replace('"', "").split(",") if "__" in name)
    assert STALL.format("gmma") in hopper
    assert STALL.format("gmma") not in ncu.metrics("sm_80")
    assert len(set(hopper)) == len(hopper)


def test_missing_permission_is_one_clear_line(tmp_path):
    (tmp_path / "ncu.csv").write_text(
        "==PROF== Connected to process 2258\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0.\n==PROF== Disconnected from process 2258\n"
    )
    with pytest.raises(MissingCapability, match=r"ERR_NVGPUCTRPERM.*RestrictProfilingToAdminUsers") as caught:
        ncu.read_output(tmp_path / "ncu.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no kernel ran"),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (NCU.partition('"0",')[0], "no kernel ran"),
    ],
)
def test_ncu_without_kernels_fails_with_what_it_said(tmp_path, text, reason):
    if text is not None:
        (tmp_path / "ncu.csv").write_text(text)
    with pytest.raises(WorkerFailed, match=reason):
        ncu.read_output(tmp_path / "ncu.csv")


def test_rocprofs_runs_are_merged_into_one_profile_for_each_kernel_after_the_marker(tmp_path):
    runs = {
        "FETCH_SIZE": (1024.0, 16.0), "WRITE_SIZE": (64.0, 8.0), "L2CacheHit": (12.5, 80.0),
        "MfmaUtil": (34.2, 0.0), "MemUnitStalled": (21.0, 3.0),
    }  # fmt: skip
    for number, (counter, values) in enumerate(runs.items(), 1):
        folder = tmp_path / f"pass_{number}"
        folder.mkdir()
        (folder / f"{number}_counter_collection.csv").write_text(run_of(counter, values, (800 + number, 90)))
    decode, merge = rocprof.read_output(tmp_path)
    assert (decode.kernel, merge.kernel) == ("decode(float*)", "merge")
    assert decode.duration_ns == 803.0  # the median of five runs
    assert (decode.dram_read_bytes, decode.dram_write_bytes) == (1024 * 1024.0, 64 * 1024.0)
    assert (decode.l2_hit, decode.matrix_pipe) == pytest.approx((0.125, 0.342))
    assert decode.registers == 128 + 64
    assert decode.occupancy is None
    assert decode.stalls == (("memory unit", 21.0),)


def test_a_counter_with_a_row_for_each_instance_is_summed():
    text = run_of("FETCH_SIZE", (10.0, 1.0)) + dispatch(3, "decode(float*)", "FETCH_SIZE", 5.0, 800) + "\n"
    assert [each.counters["FETCH_SIZE"] for each in rocprof.read_run(text)] == [15.0, 1.0]


def test_a_run_that_launched_other_kernels_is_left_out():
    good = rocprof.read_run(run_of("FETCH_SIZE", (10.0, 1.0)))
    other = rocprof.read_run(run_of("WRITE_SIZE", (3.0, 1.0)).replace('"merge"', '"tune"'))
    decode, _ = rocprof.merge([good, other])
    assert (decode.dram_read_bytes, decode.dram_write_bytes) == (10 * 1024.0, None)


def test_rocprof_without_files_or_marker_fails(tmp_path):
    with pytest.raises(WorkerFailed, match="profiled no kernel"):
        rocprof.read_output(tmp_path)
    (tmp_path / "1_counter_collection.csv").write_text(run_of("FETCH_SIZE", (1.0, 1.0)).replace(MARKER, "fill"))
    with pytest.raises(WorkerFailed, match="profiled no kernel"):
        rocprof.read_output(tmp_path)


def test_the_table_has_a_row_for_each_kernel_and_dashes_for_what_is_not_there():
    text = profile_table([*ncu.parse(NCU), KernelProfile("x" * 60)])
    header, _, decode, merge, bare = text.splitlines()
    assert " ".join(header.split()) == (
        "kernel µs TB/s MB read MB written L2 hit matrix pipe registers occupancy stalls (warps waiting per issue)"
    )
    assert " ".join(decode.split()) == (
        "decode(float const*, int) 283.00 4.33 1208.48 16.78 12.5 % 34.2 % 254 12.4 % "
        "long_scoreboard 4.10, gmma 1.25, wait 0.70"
    )
    assert merge.split()[1:7] == ["4.10", "3.07", "8.39", "4.19", "–", "0.0"]
    assert bare.split()[0] == "x" * 43 + "…"
    assert bare.split()[1:] == ["–"] * 9
