"""One case of a task: the arguments of `generate_input`, and its line in the platform's format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.errors import BrokenTask

Argument = int | bool | str

# The platform's evaluator reads words, signed integers, and nothing else.
# Source: gpu-mode/reference-kernels, problems/amd_202602/eval.py (2026).
_PART = re.compile(r"\s*([a-zA-Z_]\w*):\s*([a-zA-Z_]\w*|[+-]?[0-9]+)\s*")


@dataclass(frozen=True)
class Case:
    """Arguments of one `generate_input` call.

    arguments: keyword arguments, the seed included (already combined with a secret seed, if any).
    spec: the platform's case line, with the public seed.
    """

    arguments: Mapping[str, Argument]
    spec: str

    @property
    def shape_arguments(self) -> dict[str, Argument]:
        """The arguments without the seed: what the case's shape depends on."""
        return {name: value for name, value in self.arguments.items() if name != "seed"}

    def with_seed_plus(self, step: int) -> Case:
        """The same case with its seed moved by `step`; unchanged where a case has no seed."""
        if "seed" not in self.arguments:
            return self
        return replace(self, arguments={**self.arguments, "seed": int(self.arguments["seed"]) + step})

    def with_secret_seed(self, secret: int | None) -> Case:
        """The case as the platform runs it under a secret seed (`None`: unchanged)."""
        if secret is None or "seed" not in self.arguments:
            return self
        return replace(self, arguments={**self.arguments, "seed": combine_seeds(int(self.arguments["seed"]), secret)})


def combine_seeds(public: int, secret: int) -> int:
    """The platform's Cantor pairing of a case's seed and the secret one: `a + (a+b)(a+b+1)//2`."""
    return public + (public + secret) * (public + secret + 1) // 2


def case_from_arguments(arguments: Mapping[str, Argument]) -> Case:
    """A case with the line that the platform writes for these arguments."""
    return Case(dict(arguments), "; ".join(f"{name}: {value}" for name, value in arguments.items()))


def parse_case_line(line: str) -> Case:
    """Read one case line (`batchsize: 4; seed: 1`).

    Raises BrokenTask where the platform's evaluator would exit with code 113.
    """
    arguments: dict[str, Argument] = {}
    for part in line.split(";"):
        matched = _PART.fullmatch(part)
        if matched is None:
            raise BrokenTask(f"invalid test case: '{line}': '{part}' is not 'name: integer, true, false or word'")
        arguments[matched[1]] = _value(matched[2])
    return Case(arguments, line)


def _value(text: str) -> Argument:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
