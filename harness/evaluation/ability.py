"""Which files can run at all on the device at hand."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import MissingCapability
from harness.problem.variant import Variant
from harness.targets.machine import Machine

_ADVICE = "choose other --shapes, or see what it compiles to with `harness inspect`"


def require_device(variant: Variant, labels: Iterable[str | None], machine: Machine, advice: str = _ADVICE) -> None:
    """Raise MissingCapability where the file's kernels for one of these shapes cannot run on this machine.

    A file says so in `VARIANT["runs_on"]`, a list of targets such as ["sm_90"], for each shape apart where it is
    merged. Without the key its kernels run wherever Triton does, and in Triton's interpreter. labels: None for a shape
    that has no label of its own. advice: what else the user can do.
    """
    unable: dict[str, str] = {}
    for label in labels:
        targets = variant.declaration(label).get("runs_on")
        if targets and machine.target not in targets:
            unable[label or "a shape without a name"] = " or ".join(targets)
    if not unable:
        return
    target = next(iter(unable.values()))
    here = machine.target if machine.on_gpu else machine.kind
    raise MissingCapability(
        f"{variant.name} runs only on {target} for {', '.join(unable)} (here: {here}); run it on such a GPU, {advice}"
    )
