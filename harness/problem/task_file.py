"""task.yml in the platform's format, read strictly: what the platform refuses is refused here too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BrokenTask, FileProblem
from harness.problem.case import Case, case_from_arguments, parse_case_line

SUBMISSION_SOURCE = "@SUBMISSION@"
RANKINGS = ("last", "mean", "geom")
_REQUIRED = ("files", "lang", "config", "description")
_OPTIONAL = (
    "templates", "gpus", "libraries", "tests", "benchmarks", "test_timeout", "benchmark_timeout",
    "ranked_timeout", "ranking_by", "seed", "multi_gpu",
)  # fmt: skip


@dataclass(frozen=True)
class TaskFile:
    """What task.yml says.

    files: file name in the run folder → source path, or None for the submission itself.
    main: the evaluator's file name.
    tests, benchmarks: the cases, in order. Timeouts in seconds.
    ranking_by: how the score is made of the benchmark means: last, mean or geom.
    """

    files: dict[str, Path | None]
    main: str
    description: str
    tests: tuple[Case, ...]
    benchmarks: tuple[Case, ...]
    test_timeout_s: float
    benchmark_timeout_s: float
    ranked_timeout_s: float
    ranking_by: str
    seed: int | None
    gpus: tuple[str, ...]

    def timeout_s(self, mode: str) -> float:
        """The platform's limit for one run of `mode`, in seconds."""
        if mode == "test":
            return self.test_timeout_s
        return self.ranked_timeout_s if mode == "leaderboard" else self.benchmark_timeout_s


def read_task_file(path: Path) -> TaskFile:
    """Read `path` (task.yml).

    Raises FileProblem when it is missing, BrokenTask when its content is not in the platform's format or
    needs what this toolkit does not do (lang cu, several GPUs).
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileProblem.missing(path, "a problem folder holds a task.yml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenTask(f"{path}: cannot be read: {error}") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise BrokenTask(f"{path}{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    return _task(path, raw)


def _task(path: Path, raw: Any) -> TaskFile:
    if not isinstance(raw, dict):
        raise BrokenTask(f"{path}: expected a mapping with {', '.join(_REQUIRED)}")
    for key in _REQUIRED:
        if key not in raw:
            raise BrokenTask(f"{path}: '{key}' is missing (required: {', '.join(_REQUIRED)})")
    for key in raw:
        if key not in _REQUIRED and key not in _OPTIONAL:
            raise BrokenTask(f"{path}: unknown key '{key}' (accepted: {', '.join(_REQUIRED + _OPTIONAL)})")
    if raw["lang"] != "py":
        raise BrokenTask(f"{path}: lang '{raw['lang']}' is not supported (accepted: py)")
    if raw.get("multi_gpu", False):
        raise BrokenTask(f"{path}: multi_gpu problems are not supported (this toolkit runs on one GPU)")
    ranking_by = raw.get("ranking_by", "last")
    if ranking_by not in RANKINGS:
        raise BrokenTask(f"{path}: ranking_by '{ranking_by}' (accepted: {', '.join(RANKINGS)})")
    config = raw["config"]
    if not isinstance(config, dict) or set(config) != {"main"}:
        raise BrokenTask(f"{path}: config must be a mapping with exactly 'main' for lang py")
    return TaskFile(
        files=_files(path, raw["files"]),
        main=str(config["main"]),
        description=str(raw["description"]),
        tests=_cases(path, "tests", raw.get("tests")),
        benchmarks=_cases(path, "benchmarks", raw.get("benchmarks")),
        test_timeout_s=_seconds(path, raw, "test_timeout"),
        benchmark_timeout_s=_seconds(path, raw, "benchmark_timeout"),
        ranked_timeout_s=_seconds(path, raw, "ranked_timeout"),
        ranking_by=ranking_by,
        seed=raw.get("seed"),
        gpus=tuple(str(gpu) for gpu in raw.get("gpus") or ()),
    )


def _files(path: Path, raw: Any) -> dict[str, Path | None]:
    if not isinstance(raw, list):
        raise BrokenTask(f"{path}: 'files' must be a list of name and source")
    files: dict[str, Path | None] = {}
    for entry in raw:
        if not isinstance(entry, dict) or not {"name", "source"} <= set(entry):
            raise BrokenTask(f"{path}: each of 'files' needs a name and a source, not {entry!r}")
        name, source = str(entry["name"]), str(entry["source"])
        files[name] = None if source == SUBMISSION_SOURCE else (path.parent / source).resolve()
    if None not in files.values():
        raise BrokenTask(f"{path}: none of 'files' has the source {SUBMISSION_SOURCE}")
    return files


def _cases(path: Path, key: str, raw: Any) -> tuple[Case, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise BrokenTask(f"{path}: '{key}' must be a list of mappings of arguments")
    for entry in raw:
        for name, value in entry.items():
            if not isinstance(name, str) or not isinstance(value, int | bool | str):
                raise BrokenTask(f"{path}: in '{key}', {name}: {value!r} is not an integer, boolean or word")
    try:
        # By way of its line, as on the platform: YAML's true becomes the word True there, not a boolean.
        return tuple(parse_case_line(case_from_arguments(entry).spec) for entry in raw)
    except BrokenTask as error:
        raise BrokenTask(f"{path}: in '{key}', {error}") from None


def _seconds(path: Path, raw: dict[str, Any], key: str) -> float:
    value = raw.get(key, 180)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise BrokenTask(f"{path}: {key} must be a positive number of seconds, not {value!r}")
    return float(value)
