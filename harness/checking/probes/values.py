"""Probes of values and shapes: inputs on which a shortcut shows."""

from __future__ import annotations

from harness.checking.probes.probe import ProbeResult, Situation, Worst, not_applicable


class _Special:
    """Runs the inputs of one kind that the problem offers."""

    name: str
    kind: str
    what: str
    nothing: str

    def run(self, situation: Situation) -> ProbeResult:
        """Fails at the first of the inputs whose output is wrong."""
        inputs = situation.special(self.kind)
        worst = Worst()
        for name, data in inputs or ():
            situation.subject.put(data, slot="special")
            verdict = situation.judge(data, situation.subject.call("special"))
            if failure := worst.take(name, verdict):
                situation.subject.free("special")
                return failure
        if worst.count == 0:
            return not_applicable(self.nothing)
        situation.subject.free("special")
        return worst.result(self.what)


class KeySensitivity(_Special):
    """One decisive key in each block."""

    name, kind, what = "key-sensitivity", "sensitive keys", "sets of decisive keys"
    nothing = "this problem's truth.py offers no such inputs"


class HardValues(_Special):
    """Large, tiny, peaky and constant values."""

    name, kind, what = "hard-values", "hard values", "sets of hard values"
    nothing = "this problem's truth.py offers no such inputs"


class HardShapes(_Special):
    """Uneven and edge lengths, and several queries, where the file says that it takes them."""

    name, kind, what = "hard-shapes", "hard shapes", "uneven inputs"
    nothing = "the file declares neither ragged inputs nor several queries"


class Order:
    """One case twice around another of a different shape."""

    name = "order"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when a case leaves something behind that the next one trips over."""
        subject, worst = situation.subject, Worst()
        other = situation.draw_other_shape()
        if other is None:
            return not_applicable("the file takes one shape only")
        for turn in range(2):
            data = situation.draw()
            subject.put(data)
            verdict = situation.judge(data, subject.call())
            if failure := worst.take("before another shape" if turn == 0 else "after another shape", verdict):
                return failure
            if turn == 0:
                subject.put(other, slot="other")
                subject.call_entry_point("other")
                subject.free("other")
        return worst.result("calls around another shape")


class EntryPoint:
    """`custom_kernel` itself, where the other probes go to a shape's own entry in a merged file."""

    name = "entry-point"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when `custom_kernel` is wrong on inputs that the shape's own entry gets right."""
        subject, worst = situation.subject, Worst()
        data = situation.draw()
        subject.put(data)
        if not subject.has_entries:
            return not_applicable("not a merged file: the other probes call custom_kernel itself")
        failure = worst.take("custom_kernel", situation.judge_any(data, subject.call_entry_point()))
        return failure or worst.result("call of custom_kernel")
