"""Both clocks against kernels of known length, the floor and the steadiness of medians: on a real GPU."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from harness.evaluation.evaluate import Request, evaluate
from harness.evaluation.result import Evaluation
from harness.problem.problem import open_problem
from harness.problem.variant import read_variant
from harness.timing.clear import CLEAR_BYTES, OFFICIAL_CLEAR_BYTES

HERE = Path(__file__).parent
SPIN = HERE / "problems" / "spin"


def close_to(expected_ns: float) -> float:
    """The tolerance of a time: 1 µs or 2 %, whichever is more."""
    return max(1000.0, 0.02 * expected_ns)


@pytest.fixture(scope="module")
def cuda() -> None:
    """The spin reads NVIDIA's timer."""
    import torch

    if not torch.cuda.is_available() or torch.version.hip is not None:
        pytest.skip("needs an NVIDIA GPU")


@pytest.fixture(scope="module")
def spun(cuda) -> Evaluation:
    """The spin problem in benchmark mode: nothing, 50 µs, 200 µs and 1 ms."""
    return evaluated_spin()


def evaluated_spin(**request) -> Evaluation:
    result = evaluate(open_problem(SPIN), read_variant(SPIN / "variants" / "spin.py"), Request("benchmark", **request))
    assert result.passed, [case.reason for case in result.cases]
    return result


def queued_by_hand() -> float:
    """The median of the same empty kernel, timed by a plain loop of events in this process, in nanoseconds."""
    import runpy

    import torch

    kernel = runpy.run_path(str(SPIN / "variants" / "spin.py"))["custom_kernel"]
    data = (torch.randn(256, device="cuda"), {"spin_ns": 0})
    buffer = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    times_ns = []
    for _ in range(60):
        torch.cuda.synchronize()
        for turn in range(CLEAR_BYTES >> 30):
            buffer.fill_(turn)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        kernel(data)
        end.record()
        torch.cuda.synchronize()
        times_ns.append(start.elapsed_time(end) * 1e6)
    return median(times_ns[10:])


@pytest.mark.gpu
def test_an_empty_kernel_is_timed_within_a_microsecond_of_a_plain_loop_and_of_the_empty_launch(spun):
    queued_ns = spun.cases[0].queued_median_ns
    assert abs(queued_ns - queued_by_hand()) < 1000
    assert abs(queued_ns - spun.empty.queued_launch) < 1000


@pytest.mark.gpu
@pytest.mark.parametrize(("index", "spin_ns"), [(1, 50_000), (2, 200_000), (3, 1_000_000)])
def test_a_kernel_of_known_length_is_timed_right_on_the_queued_clock(spun, index, spin_ns):
    launch_ns = spun.cases[0].queued_median_ns
    assert abs(spun.cases[index].queued_median_ns - launch_ns - spin_ns) < close_to(spin_ns)


@pytest.mark.gpu
def test_the_exposed_clock_grows_by_what_the_kernel_grows(spun):
    # Against the 50 µs spin: behind an empty kernel a part of the launch cost does not show, behind a long one all.
    # The launch from Python is in it, and on a shared host it moves by tens of microseconds from case to case: 57 seen.
    short, middle, long = (case.exposed_median_ns for case in spun.cases[1:])
    assert abs(middle - short - 150_000) < 100_000
    assert abs(long - short - 950_000) < 100_000


@pytest.mark.gpu
@pytest.mark.parametrize("index", range(4))
def test_the_exposed_clock_shows_the_launch_on_top_of_the_queued_time(spun, index):
    case = spun.cases[index]
    assert case.exposed_median_ns > case.queued_median_ns
    # A launch from Python and a wait cost tens of microseconds; 200 would be something else.
    assert case.exposed_median_ns < case.queued_median_ns + 200_000


@pytest.mark.gpu
def test_empty_calls_are_ordered_as_what_is_in_them(spun):
    empty = spun.empty
    assert 0 < empty.queued < empty.queued_launch < 10_000
    assert 0 < empty.exposed < empty.exposed_launch < 100_000


@pytest.mark.gpu
def test_the_official_clear_gives_the_same_length(cuda):
    import torch

    if torch.cuda.mem_get_info()[0] < OFFICIAL_CLEAR_BYTES + (4 << 30):
        pytest.skip("the official clear does not fit on this device")
    result = evaluated_spin(clear_bytes=None, shapes="S1,S3")
    empty, spin = (case.queued_median_ns for case in result.cases)
    assert abs(spin - empty - 200_000) < close_to(200_000)


@pytest.mark.gpu
def test_the_read_bandwidth_is_steady_and_no_less_than_a_copys(cuda):
    import torch

    from harness.targets.bandwidth import measured_bandwidth

    measured = [measured_bandwidth.__wrapped__() for _ in range(3)]
    assert max(measured) / min(measured) < 1.02
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(18):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(end))
    copy = 2 * source.numel() / (median(times_ms[3:]) / 1e3)
    assert min(measured) > 0.98 * copy


@pytest.fixture(scope="module")
def repeated(cuda) -> list[Evaluation]:
    """The portable variant of this project, five times in eight processes, on four shapes from the smallest up."""
    root = HERE.parent
    problem, variant = open_problem(root), read_variant(root / "variants" / "portable.py")
    return [evaluate(problem, variant, Request("benchmark", shapes="S1,S3,S6,S8", processes=8)) for _ in range(5)]


@pytest.mark.gpu
def test_medians_of_five_runs_agree_within_one_percent(repeated):
    for cases in zip(*(run.cases for run in repeated), strict=True):
        medians = [case.queued_median_ns for case in cases]
        # One process is not enough for the small shapes: each has a launch cost of its own, 0.1 to 0.3 µs apart.
        assert max(medians) - min(medians) < 0.01 * min(medians), (cases[0].shape, medians)


@pytest.mark.gpu
def test_no_run_beats_its_floor_and_the_largest_shape_comes_near_it(repeated):
    shares = [[case.floor_share for case in run.cases] for run in repeated]
    assert all(0 < share < 1.02 for run in shares for share in run), shares
    assert all(run[-1] > 0.3 for run in shares), shares
