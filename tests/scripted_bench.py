"""A bench without a process or a GPU: outputs come from a function here, and times from a list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.evaluation.bench import Call
from harness.evaluation.protocol import Deadline
from harness.evaluation.run_folder import RunFolder
from harness.targets.machine import Machine

FAKE_GPU = Machine(
    kind="cuda",
    gpu="Scripted GPU",
    cpu="",
    device_count=1,
    runtime="CUDA",
    platform="",
    torch="",
    hostname="",
    target="sm_90",
)
EMPTY_NS = {("queued", False): 1.0, ("queued", True): 3.0, ("exposed", False): 5.0, ("exposed", True): 7.0}


def right(data: Any) -> Any:
    """The affine problem's right answer."""
    x, config = data
    return x * config["slope"] + 1


@dataclass
class ScriptedBench:
    """Stands where a Bench does.

    kernel: computes every output. times_ns: of the calls on the queued clock, one after the other; exposed_ns: of those
    on the exposed clock, which are counted apart. empty_ns: of empty calls, by (clock, launches). stood_in: asked
    before each call, whether a stand-in computes it. on_timed, on_exposed: called with the number of each call on that
    clock (from 1) before it runs; they may raise, change the kernel, or move a clock.
    """

    kernel: Callable[[Any], Any] = right
    times_ns: Iterable[float] = field(default_factory=lambda: itertools.cycle([90.0, 100.0, 110.0]))
    exposed_ns: Iterable[float] = field(default_factory=lambda: itertools.cycle([190.0, 200.0, 210.0]))
    empty_ns: dict[tuple[str, bool], float] = field(default_factory=lambda: dict(EMPTY_NS))
    stood_in: Callable[[], bool] = lambda: False
    on_timed: Callable[[int], None] = lambda number: None
    on_exposed: Callable[[int], None] = lambda number: None
    inputs: list[Any] = field(default_factory=list)
    timed_calls: int = 0
    exposed_calls: int = 0
    empty_calls: int = 0
    untimed_calls: int = 0
    clears: list[int | None] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._times, self._exposed = iter(self.times_ns), iter(self.exposed_ns)

    def start(self) -> None:
        """There is no process to start."""

    def put(self, data: Any, deadline: Deadline, slot: str = "inputs", *, counted: bool = False) -> None:
        """Take the inputs of the next calls."""
        self.inputs.append(data)

    def call(self, deadline: Deadline, key: Any = None, *rest: Any, **options: Any) -> Call:
        """One untimed call on the last inputs."""
        self.untimed_calls += 1
        self.keys.append(key)
        return Call(self.kernel(self.inputs[-1]), None, self.stood_in())

    def time(
        self,
        deadline: Deadline,
        clear_bytes: int | None,
        key: Any = None,
        slot: str = "inputs",
        clock: str = "queued",
    ) -> Call:
        """One timed call on the last inputs, which takes the next of the clock's given times."""
        self.clears.append(clear_bytes)
        if clock == "exposed":
            self.exposed_calls += 1
            self.on_exposed(self.exposed_calls)
            return Call(self.kernel(self.inputs[-1]), next(self._exposed), self.stood_in())
        self.timed_calls += 1
        self.on_timed(self.timed_calls)
        return Call(self.kernel(self.inputs[-1]), next(self._times), self.stood_in())

    def empty(
        self, deadline: Deadline, clear_bytes: int | None, clock: str, *, launches: bool, count: int
    ) -> list[float]:
        """Times of empty calls."""
        self.empty_calls += count
        return [self.empty_ns[clock, launches]] * count

    def profile(self, deadline: Deadline, key: Any = None) -> str:
        """A table."""
        return "the profiler's table"

    def printed(self) -> tuple[str, str]:
        """Nothing."""
        return "", ""

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> ScriptedBench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class InProcess(ScriptedBench):
    """Runs the submission of a run folder in this process: quick, and for submissions that a test wrote."""

    def __init__(self, folder: RunFolder, machine: Machine) -> None:
        self._names: dict[str, Any] = {}
        exec((folder.path / "submission.py").read_text(encoding="utf-8"), self._names)
        super().__init__(kernel=self._names["custom_kernel"])
        self.has_entries = "entry_for" in self._names

    def call(self, deadline: Deadline, key: Any = None, *rest: Any, **options: Any) -> Call:
        """One untimed call, through the entry of a shape where there is a key."""
        self.kernel = self._names["entry_for"](key) if key and self.has_entries else self._names["custom_kernel"]
        return super().call(deadline, key, *rest, **options)
