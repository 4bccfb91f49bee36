"""Inspects a file: every kernel that it launches on a target, compiled as it would be there, and what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import MissingCapability, UnknownName, WorkerFailed
from harness.evaluation.child import child_environment
from harness.evaluation.process_tree import end_tree
from harness.evaluation.run_folder import RunFolder, run_folder
from harness.inspection.assembly import parse
from harness.inspection.facts import Facts, amd_facts, nvidia_facts
from harness.inspection.occupancy import Occupancy
from harness.inspection.sass import disassemble
from harness.inspection.work import Work, amd_work, nvidia_work
from harness.problem.problem import Problem, Shape
from harness.problem.variant import Variant
from harness.targets.machine import package_version

TARGETS = ("gfx950", "sm_90")
# Compiling takes a second or two a kernel; a submission that does not come to an end is stopped.
LIMIT_S = 600.0
_CACHE_VERSION = 5
_ROLES = ("launch", "trial", "skipped")
_CHILDREN = 2


@dataclass(frozen=True)
class Launch:
    """One launch.

    grid: programs in each dimension; scalars: the numbers among its arguments. tiles: bytes of whole rows of each
    tensor descriptor's block. role: "launch"; "trial", a configuration that a tuner tries; or "skipped", one that it
    passes over, as Triton does where shared memory does not suffice.
    """

    shape: str
    grid: tuple[int, ...]
    scalars: Mapping[str, Any]
    tiles: tuple[int, ...] = ()
    role: str = "launch"

    @classmethod
    def of_json(cls, raw: Mapping[str, Any]) -> Launch:
        """As the driver gives it."""
        return cls(raw["shape"], tuple(raw["grid"]), raw["scalars"], tuple(raw["tiles"]), raw["role"])


@dataclass(frozen=True)
class KernelReport:
    """One kernel at one set of constants.

    line: where its source begins in the file, where Triton says it. types: of the other arguments, as Triton spells
    them; options: what else it was compiled with, where that is not 0. work: of the loop that multiplies matrices, None
    without one, and of the rest.
    """

    name: str
    line: int | None
    constants: Mapping[str, Any]
    warps: int
    stages: int
    facts: Facts
    launches: tuple[Launch, ...]
    work: tuple[Work | None, Work]
    types: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """What it is for: launched if it ever is, else tried by a tuner, else skipped by it."""
        return min((launch.role for launch in self.launches), key=_ROLES.index)

    @property
    def fits(self) -> bool:
        """Nothing makes it unfit, or no launch would take it."""
        return not self.facts.problems or self.role == "skipped"


@dataclass(frozen=True)
class Inspection:
    """One file on one target. failures: shape label ('' for the import) → why nothing was found out about it.

    stand_in: the file calls aiter, whose own kernels are not inspected. bytes_needed: shape label → what a kernel must
    move for the inputs that the file declares there, where the problem says it.
    """

    file: str
    target: str
    triton: str
    kernels: tuple[KernelReport, ...]
    failures: Mapping[str, str]
    stand_in: bool
    bytes_needed: Mapping[str, int]

    @property
    def passed(self) -> bool:
        """Every shape was inspected and every kernel fits."""
        return not self.failures and all(kernel.fits for kernel in self.kernels)


def inspect_file(problem: Problem, variant: Variant, target: str, shapes: Sequence[Shape]) -> Inspection:
    """What `variant` launches for these shapes on `target`; kept by source, shapes, target and Triton's version.

    Runs the file in child processes where Triton compiles instead of launching and the device asked for seems to be
    there; no kernel runs. Raises UnknownName for a target that is not known, MissingCapability without Triton,
    BrokenTask where the problem's inputs cannot be described, WorkerFailed where the child does not come to an end.
    """
    if target not in TARGETS:
        raise UnknownName("target", target, TARGETS)
    triton = package_version("triton")
    if triton is None:
        raise MissingCapability(
            "inspect compiles with Triton, which is not installed; make setup, or pip install triton"
        )
    kept = problem.root / ".harness" / "inspected" / f"{_key(problem, variant, target, triton, shapes)}.json"
    answer = _read(kept)
    if answer is None:
        answer = _answer(problem, variant, target, shapes)
        if not answer["failures"]:
            _write(kept, answer)
    return _inspection(variant, target, triton, answer)


def _key(problem: Problem, variant: Variant, target: str, triton: str, shapes: Sequence[Shape]) -> str:
    """Of all that the answer depends on: the file, the problem's modules, the shapes, Triton and its settings."""
    laid_out = [path for path in problem.task.files.values() if path is not None and path.is_file()]
    paths = sorted({*problem.root.glob("*.py"), *laid_out} - {variant.path})
    modules = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    settings = {name: value for name, value in os.environ.items() if name.startswith(("TRITON_", "AMDGCN_", "MLIR_"))}
    settings.pop("TRITON_CACHE_DIR", None)
    specs = [shape.case.spec for shape in shapes]
    parts = [_CACHE_VERSION, variant.source_hash, target, triton, specs, modules, sorted(settings.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _answer(problem: Problem, variant: Variant, target: str, shapes: Sequence[Shape]) -> dict[str, Any]:
    """The kernels' facts, launches and failures, from two children that share the shapes."""
    from harness.inspection.inputs import describe_inputs

    described = [
        {"label": shape.label, **describe_inputs(problem, shape, variant.declaration(shape.label))} for shape in shapes
    ]
    parts = [part for part in (described[index::_CHILDREN] for index in range(_CHILDREN)) if part]
    with run_folder(problem, variant) as folder, ThreadPoolExecutor(len(parts)) as pool:
        found = list(pool.map(lambda part: _run_child(folder, {"target": target, "shapes": part}), parts))
    kernels = {key: kernel for answer in found for key, kernel in answer["kernels"].items()}
    facts = amd_facts if target.startswith("gfx") else nvidia_facts
    for kernel in kernels.values():
        kernel["facts"] = asdict(facts(kernel))
        kernel["work"] = [None if work is None else work.to_json() for work in _work(kernel)]
        del kernel["assembly"], kernel["cubin"]
    order = [shape.label for shape in shapes]
    launches = sorted(
        (launch for answer in found for launch in answer["launches"]), key=lambda launch: order.index(launch["shape"])
    )
    return {
        "kernels": kernels,
        "launches": launches,
        "failures": {label: why for answer in found for label, why in answer["failures"].items()},
        "stand_in": any(answer.get("stand_in") for answer in found),
        "bytes_needed": {each["label"]: each["bytes_needed"] for each in described if each["bytes_needed"]},
    }


def _work(kernel: dict[str, Any]) -> tuple[Work | None, Work]:
    if kernel["cubin"] is None:
        return amd_work(parse(kernel["assembly"]))
    return nvidia_work(disassemble(bytes.fromhex(kernel["cubin"])))


def _run_child(folder: RunFolder, request: dict[str, Any]) -> dict[str, Any]:
    mark = f"SUBMISSION_RUN={secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="harness-inspect-") as name:
        asked, answered = Path(name) / "request.json", Path(name) / "answer.json"
        asked.write_text(json.dumps(request))
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.inspection.driver", str(asked), str(answered)],
            cwd=folder.path,
            env=child_environment(folder, mark, interpret=False),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"inspecting did not come to an end in {LIMIT_S:.0f} s") from None
        finally:
            end_tree(process.pid, mark)
            process.wait()
        if not answered.is_file():
            last = said.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            raise WorkerFailed(f"the process that compiles the kernels died: {last[0][:200]}")
        return json.loads(answered.read_text())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _write(path: Path, answer: dict[str, Any]) -> None:
    """Keep an answer where that is possible; a folder that cannot be written costs time and nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(answer, file)
        Path(file.name).replace(path)
    except OSError:
        return


def _inspection(variant: Variant, target: str, triton: str, answer: dict[str, Any]) -> Inspection:
    reports = []
    for key, kernel in answer["kernels"].items():
        launches = tuple(Launch.of_json(launch) for launch in answer["launches"] if launch["kernel"] == key)
        facts = Facts(
            **{
                **kernel["facts"],
                "occupancy": Occupancy(**kernel["facts"]["occupancy"]),
                "problems": tuple(kernel["facts"]["problems"]),
            }
        )
        loop, rest = map(Work.of_json, kernel["work"])
        assert rest is not None
        reports.append(
            KernelReport(
                kernel["name"], kernel["line"], kernel["constants"], kernel["warps"], kernel["stages"], facts, launches,
                (loop, rest), kernel["types"], kernel["options"],
            )
        )  # fmt: skip
    order = {launch["kernel"]: place for place, launch in reversed(list(enumerate(answer["launches"])))}
    places = {id(report): order[key] for report, key in zip(reports, answer["kernels"], strict=True)}
    reports.sort(key=lambda report: places[id(report)])
    return Inspection(
        str(variant.path),
        target,
        triton,
        tuple(reports),
        answer["failures"],
        answer["stand_in"],
        answer["bytes_needed"],
    )
