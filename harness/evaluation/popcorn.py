"""The platform's evaluator contract: MODE and a case file in, `key: value` lines out on the descriptor POPCORN_FD.

Exit codes: 0 all passed; 110 a GPU error; 111 no descriptor; 112 a check failed; 113 a bad case line;
114 the limit of time; 2 bad arguments. Unlike the platform's own, the leaderboard mode does not exit with 0
on a failure, a crash of the submission does not hang it, and every finished case is written at once.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from harness.errors import BrokenTask, HarnessError
from harness.evaluation.evaluate import Request, evaluate
from harness.evaluation.result import MODES, CaseResult, Evaluation
from harness.problem.case import parse_case_line
from harness.problem.problem import open_problem
from harness.problem.variant import read_variant
from harness.report.wire import case_lines, closing_lines, opening_lines

EXIT_PASSED, EXIT_USAGE = 0, 2
EXIT_GPU_ERROR, EXIT_NO_DESCRIPTOR, EXIT_FAILED, EXIT_BAD_CASE, EXIT_TIMEOUT = 110, 111, 112, 113, 114


def main(arguments: list[str]) -> int:
    """Evaluate ./submission.py against the problem in the working directory; returns the platform's exit code."""
    descriptor = os.environ.pop("POPCORN_FD", "")
    if not descriptor.isdigit():
        return EXIT_NO_DESCRIPTOR
    if len(arguments) < 2 or arguments[0] not in MODES:
        return EXIT_USAGE
    mode, case_file = arguments[0], Path(arguments[1])
    seed = os.environ.pop("POPCORN_SEED", "")
    if not re.fullmatch(r"([+-]?[0-9]+)?", seed):
        print(f"POPCORN_SEED is no integer: {seed!r}", file=sys.stderr)
        return EXIT_USAGE
    try:
        cases = [parse_case_line(line) for line in case_file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, BrokenTask) as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_CASE
    try:
        results = os.fdopen(int(descriptor), "w", encoding="utf-8")
    except OSError as error:
        print(f"POPCORN_FD {descriptor}: {error.strerror}", file=sys.stderr)
        return EXIT_NO_DESCRIPTOR
    with results:

        def write(lines: list[str]) -> None:
            results.write("".join(f"{line}\n" for line in lines))
            results.flush()

        def listen(index: int, count: int, result: CaseResult | None, label: str) -> None:
            if result is not None:
                write(case_lines(mode, index, result))

        write(opening_lines(mode, len(cases)))
        try:
            problem = open_problem(Path.cwd())
            request = Request(mode=mode, secret_seed=int(seed) if seed else None)
            evaluation = evaluate(problem, read_variant(Path("submission.py")), request, cases=cases, listener=listen)
        except HarnessError as error:
            print(error, file=sys.stderr)
            write(closing_lines(passed=False))
            return EXIT_FAILED
        write(closing_lines(passed=evaluation.passed))
    sys.stdout.write(evaluation.stdout)
    sys.stderr.write(evaluation.stderr)
    return exit_code(evaluation)


def exit_code(evaluation: Evaluation) -> int:
    """The platform's exit code for an evaluation."""
    if evaluation.passed:
        return EXIT_PASSED
    reasons = " ".join(case.reason for case in evaluation.cases)
    if "the limit of time" in reasons:
        return EXIT_TIMEOUT
    if "CUDA error" in reasons or "HIP error" in reasons:
        return EXIT_GPU_ERROR
    return EXIT_FAILED
