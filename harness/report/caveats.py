"""What must be read with a result: its notes, and what ran in place of the real device or library."""

from __future__ import annotations

from harness.evaluation.result import Evaluation

_SUBSTITUTES = ("interpreted", "stand-in")


def all_notes(evaluation: Evaluation) -> list[str]:
    """The notes of every stage and of the whole, each once."""
    notes = [note for stage in evaluation.stages for note in stage.notes]
    return list(dict.fromkeys([*notes, *evaluation.notes]))


def substitutes(evaluation: Evaluation) -> list[str]:
    """`interpreted` and `stand-in`, where the machine's kind or a note says so: then no time is that of the kernel."""
    said = " ".join([evaluation.machine.kind, *all_notes(evaluation)]).lower()
    return [word for word in _SUBSTITUTES if word in said]
