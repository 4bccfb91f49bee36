"""Probes of memory: addresses, buffers, and what nobody wrote."""

from __future__ import annotations

from harness.checking.probes.probe import ProbeResult, Situation, Worst, failed, passed

# Two bytes that make different numbers in every dtype: NaN in bf16 and fp8, and 48.6 in bf16.
POISONS = (0xFF, 0x42)


class FreshValues:
    """New values at the same addresses: all at once and part by part, seen and unseen by version counters."""

    name = "fresh-values"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when an output belongs to values that are no longer there."""
        subject, worst = situation.subject, Worst()
        first, second = situation.draw(), situation.draw()
        for name, data in (("first values", first), ("new values", second)):
            subject.put(data)
            if failure := worst.take(name, situation.judge(data, subject.call())):
                return failure
        for name, data in situation.special("changed parts", second) or ():
            subject.put(data, counted=False)
            if failure := worst.take(f"{name} alone", situation.judge(data, subject.call())):
                return failure
        subject.put(first, counted=True)
        if failure := worst.take("first values again", situation.judge(first, subject.call())):
            return failure
        return worst.result("sets of values")


class NewAddress:
    """The same values elsewhere, the old memory gone."""

    name = "new-address"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when an address was kept from an earlier call."""
        subject, worst = situation.subject, Worst()
        data, other = situation.draw(), situation.draw()
        subject.put(data)
        subject.call()
        subject.put(data, slot="elsewhere")
        # The old tensors stay until the new ones exist, so that they cannot be handed out again; then they change.
        subject.put(other)
        failure = worst.take("same values elsewhere", situation.judge(data, subject.call("elsewhere")))
        subject.free("elsewhere")
        return failure or worst.result("new address")


class KeptOutputs:
    """Outputs held at once."""

    name = "kept-outputs"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when a second call changes the first one's output or shares its memory."""
        import torch

        subject = situation.subject
        first, second = situation.draw(), situation.draw()
        subject.put(first)
        before = subject.call(keep="first")
        subject.put(second)
        subject.call(keep="second")
        after = subject.kept("first")
        if not _same_bytes(torch, before, after):
            return failed("a second call changed the output of the first")
        if subject.overlap("first", "second"):
            return failed("two outputs share memory")
        # Every output of every probe so far is still alive: a ring of buffers comes round at last.
        if subject.reused:
            return failed(f"one of {subject.held} outputs lies in the memory of an earlier one that is still in use")
        return passed(f"{subject.held} outputs alive, each in memory of its own")


class PoisonedMemory:
    """Uninitialised memory filled with two different patterns."""

    name = "poisoned-memory"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when an output depends on memory that nobody wrote."""
        subject, worst = situation.subject, Worst()
        for poison in POISONS:
            data = situation.draw()
            subject.put(data)
            verdict = situation.judge(data, subject.call(poison=poison))
            if failure := worst.take(f"free memory filled with 0x{poison:02X}", verdict):
                return failure
        return worst.result("patterns")


class InputsUnharmed:
    """The inputs after a call."""

    name = "inputs-unharmed"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when a call wrote to any of its inputs."""
        import torch

        subject, data = situation.subject, situation.draw()
        subject.put(data)
        subject.call()
        before, after = situation.tensors(data), subject.inputs()
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if not _same_bytes(torch, old, new):
                return failed(f"input tensor {index} of {len(before)}, shape {tuple(old.shape)}, was written to")
        return passed(f"{len(before)} input tensors unchanged")


def _same_bytes(torch, old, new) -> bool:
    flat = [item.contiguous().reshape(-1).view(torch.uint8) for item in (old, new)]
    return flat[0].shape == flat[1].shape and bool(torch.equal(*flat))
