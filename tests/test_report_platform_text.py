"""The text report is the platform's, to the character."""

from __future__ import annotations

from dataclasses import replace

from report_record import GPU, ONE_RUN, SPEC_1, SPEC_2, TIMING, evaluation, failed, passed

from harness.checking.verdict import ExactVerdict
from harness.report.platform_text import crash_text, log_of_benchmarks, log_of_tests, platform_text, running_on

RUNNING_ON = """
Running on:
* GPU: `NVIDIA H200`
* CPU: `Intel(R) Xeon(R)`
* Device count: `1`
* Runtime: `CUDA`
* Platform: `Linux-6.1`
* Torch: `2.13.0`
* Hostname: `node-1`
"""
TIMED = f"{SPEC_1}\n ⏱ 36.5 ± 0.02 µs\n ⚡ 35.9 µs 🐌 41.0 µs\n"


def test_the_report_opens_with_the_machine():
    assert running_on(GPU) == RUNNING_ON


def test_passed_tests_are_listed_with_their_messages():
    record = evaluation("test", passed(message="Maximum error: 0.01"), passed(SPEC_2, "S2"))
    assert platform_text(record) == (
        f"{RUNNING_ON}\n\n## ✅ Passed 2/2 tests:\n```\n✅ {SPEC_1}\n> Maximum error: 0.01\n✅ {SPEC_2}```"
    )


def test_a_failed_test_gives_the_command_the_log_and_what_was_printed():
    record = evaluation(
        "test", passed(), failed(message="Number: 3\\nERROR at (0, 1): 1.0 2.0"), stderr="warn\n", stdout="\nhello "
    )
    assert platform_text(record) == (
        f"{RUNNING_ON}# Testing failed\nCommand ```bash\nharness eval submission.py --mode test```\n"
        "ran successfully in 12.35 seconds, but did not pass all tests.\n"
        f"\n\n## Test log:\n```\n✅ {SPEC_1}\n❌ {SPEC_2}\n> Number: 3\nERROR at (0, 1): 1.0 2.0```"
        "\n\n## Program stderr:\n```\nwarn```\n\n## Program stdout:\n```\nhello```"
    )


def test_benchmarks_are_three_lines_each_with_an_empty_one_after():
    record = evaluation("benchmark", passed(timing=TIMING), failed(), passed(SPEC_2, "S2", timing=TIMING))
    assert platform_text(record) == (
        f"{RUNNING_ON}\n\n## Benchmarks:\n```\n"
        f"{TIMED}\n"
        f"❌ {SPEC_2} failed testing:\n\nmismatch\n\n"
        f"{TIMED.replace(SPEC_1, SPEC_2)}```"
    )


def test_the_leaderboard_alone_is_the_ranked_benchmark_and_shows_what_was_printed():
    record = evaluation("leaderboard", passed(timing=TIMING), stdout="compiled")
    assert platform_text(record) == (
        f"{RUNNING_ON}\n\n## Ranked Benchmark:\n```\n{TIMED}```\n\n## Program stdout:\n```\ncompiled```"
    )


def test_stages_come_in_their_order_and_leave_out_what_was_printed():
    stages = (
        evaluation("test", passed()),
        evaluation("benchmark", passed(timing=TIMING), stdout="noise"),
        evaluation("leaderboard", passed(timing=TIMING), stderr="noise"),
    )
    record = evaluation("leaderboard", *stages[-1].cases, stages=stages, stdout="noise")
    assert platform_text(record) == (
        f"{RUNNING_ON}\n\n## ✅ Passed 1/1 tests:\n```\n✅ {SPEC_1}```"
        f"\n\n## Benchmarks:\n```\n{TIMED}```\n\n## Ranked Benchmark:\n```\n{TIMED}```"
    )


def test_a_failed_test_stage_ends_the_report():
    stages = (evaluation("test", failed()), evaluation("benchmark", passed(timing=TIMING)))
    text = platform_text(evaluation("leaderboard", stages=stages))
    assert "# Testing failed" in text
    assert "Benchmarks" not in text


def test_a_profile_is_indented_under_its_spec():
    record = evaluation("profile", replace(passed(), profile="Name  Time\n\nkernel  1\n"))
    assert platform_text(record) == (f"{RUNNING_ON}\n\n## Profiling {SPEC_1}:\n```\n  Name  Time\n\n  kernel  1\n\n```")


def test_several_profiles_are_several_runs_so_nothing_printed_is_shown():
    case = replace(passed(), profile="x")
    assert "Program stdout" in platform_text(evaluation("profile", case, stdout="hello"))
    assert "Program stdout" not in platform_text(evaluation("profile", case, case, stdout="hello"))


def test_a_case_without_timing_has_a_dash_and_no_best_and_worst():
    assert log_of_benchmarks([passed()]) == f"{SPEC_1}\n ⏱ –\n"


def test_what_an_interpreter_or_a_stand_in_computed_says_so_before_all_else():
    note = "Results come from a stand-in for a library; it is never timed."
    record = evaluation("test", passed())
    assert platform_text(replace(record, notes=(note,))) == f"{note}\n{platform_text(record)}"
    assert platform_text(replace(record, notes=("Cut short by the limit of time.",))) == platform_text(record)


def test_a_single_run_has_no_error():
    assert log_of_benchmarks([passed(timing=ONE_RUN)]) == f"{SPEC_1}\n ⏱ 1500 µs\n ⚡ 1500 µs 🐌 1500 µs\n"


def test_only_in_the_test_log_does_a_backslash_n_become_a_line():
    case = failed(message="one\\ntwo")
    assert log_of_tests([case]) == f"❌ {SPEC_2}\n> one\ntwo"
    assert log_of_benchmarks([case]) == f"❌ {SPEC_2} failed testing:\n\none\\ntwo\n"


def test_a_case_that_died_or_failed_only_exactly_is_failed_with_its_reason():
    died = failed(message="", reason="the process ended with code 139")
    inexact = replace(passed(), status="fail", exact=ExactVerdict("fail", ""), reason="exact: off")
    assert log_of_tests([died, inexact]) == f"❌ {SPEC_2}\n> the process ended with code 139\n❌ {SPEC_1}\n> exact: off"


def test_no_cases_are_said_to_be_none():
    assert log_of_tests([]) == "❗ Could not find any test cases"
    assert log_of_benchmarks([]) == "❗ Could not find any benchmarks"


def test_a_long_command_is_cut_at_a_thousand_characters():
    record = replace(evaluation("test", failed()), file="x" * 2000)
    command = platform_text(record).split("```bash\n")[1].split("```\n")[0]
    assert len(command) == 1000
    assert command.endswith("xx [...]")


def test_a_crash_says_code_and_time_and_a_timeout_says_so():
    assert crash_text("python3 eval.py test x", 110, 0.5, stderr="CUDA error\n") == (
        "# Running failed\nCommand ```bash\npython3 eval.py test x```\n"
        "exited with error code **110** after 0.50 seconds.\n\n## Program stderr:\n```\nCUDA error```"
    )
    assert crash_text("python3 eval.py test x", 114, 900, stdout="half") == (
        "# Running failed\nCommand ```bash\npython3 eval.py test x```\n"
        "**timed out** after 900.00 seconds.\n\n## Program stdout:\n```\nhalf```"
    )
