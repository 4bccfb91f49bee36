"""Probes that need a device: hidden work, forged clocks, impossible speed."""

from __future__ import annotations

from statistics import median

from harness.checking.probes.probe import ProbeResult, Situation, failed, not_applicable, passed

# Host time that the clear before a timed call can hide, in nanoseconds: below this a loop of calls may be launch-bound.
HIDDEN_NS = 3e6
# Two clocks of an honest loop agree within this factor: the loop has warm caches, the events' calls are in it.
CLOCKS_AGREE = 1.3
# The measured bandwidth is exceeded by this factor before a time is called impossible.
FASTER_THAN_MEMORY = 1.15
_TIMED_CALLS = 7
_LOOP = 50


class DeviceSync:
    """The output at once, and after everything has come to rest."""

    name = "device-sync"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when the output was still being made after the call: work on another queue or thread."""
        import torch

        data = situation.draw()
        situation.subject.put(data)
        early, late = situation.subject.early_and_late()
        for name, output in (("at once", early), ("after everything came to rest", late)):
            verdict = situation.judge(data, output)
            if verdict.status == "fail":
                return failed(f"the output {name}: {verdict.detail}")
        if not torch.equal(*(output.contiguous().reshape(-1).view(torch.uint8) for output in (early, late))):
            return failed("the output changed after the call had ended")
        waited = "a full device synchronisation" if situation.on_gpu else "0.3 s"
        return passed(f"the output is the same before and after {waited}")


class OutsideClock:
    """The parent's clock over M and 2M calls against the events' claim."""

    name = "outside-clock"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when the events or the queued clock claim much less than the parent's clock saw a call take."""
        if not situation.timed:
            return not_applicable("needs a device whose times mean something")
        subject, data = situation.subject, situation.draw()
        subject.put(data)
        queued = median(subject.time()[0] for _ in range(_TIMED_CALLS))
        subject.repeat(3)
        once = min(subject.repeat(_LOOP)[0] for _ in range(3))
        loops = [subject.repeat(2 * _LOOP) for _ in range(3)]
        for _, _, output in loops:
            verdict = situation.judge(data, output)
            if verdict.status == "fail":
                return failed(f"the last of {2 * _LOOP} calls: {verdict.detail}")
        seen = (min(seen for seen, _, _ in loops) - once) / _LOOP
        claim = min(claimed for _, claimed, _ in loops) / (2 * _LOOP)
        figures = (
            f"a call takes {seen / 1e3:.1f} µs by the parent's clock, {claim / 1e3:.1f} by events in the same loop"
        )
        figures += f", {queued / 1e3:.1f} on the queued clock"
        if seen > claim * CLOCKS_AGREE + HIDDEN_NS or seen > queued * CLOCKS_AGREE + HIDDEN_NS:
            return failed(figures)
        return passed(figures)


class Floor:
    """Timed calls on fresh values, against the time that moving the needed bytes takes here."""

    name = "floor"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails when a timed call is wrong, or faster than memory allows."""
        if not situation.timed:
            return not_applicable("needs a device whose times mean something")
        needed = situation.bytes_needed(situation.draw())
        if needed is None:
            return not_applicable("this problem does not say how many bytes a kernel must move")
        times_ns = []
        for _ in range(_TIMED_CALLS):
            # Fresh values for every timed call: what replays, or works only while no clock runs, is wrong.
            data = situation.draw()
            situation.subject.put(data)
            one_ns, output = situation.subject.time()
            verdict = situation.judge(data, output)
            if verdict.status == "fail":
                return failed(f"a timed call on fresh values: {verdict.detail}")
            times_ns.append(one_ns)
        time_ns = median(times_ns)
        floor_ns = needed / situation.bandwidth() * 1e9
        reached = f"{100 * floor_ns / time_ns:.0f} % of it reached"
        figures = f"{time_ns / 1e3:.1f} µs, floor {floor_ns / 1e3:.1f} µs for {needed / 1e6:.1f} MB, {reached}"
        return failed(figures) if time_ns * FASTER_THAN_MEMORY < floor_ns else passed(figures)
