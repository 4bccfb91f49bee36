"""The platform's source rules as a probe."""

from __future__ import annotations

from pathlib import Path

from harness.checking.probes.probe import ProbeResult, Situation, failed, passed


class SourceRules:
    """What the platform refuses before it runs anything."""

    name = "lint"

    def run(self, situation: Situation) -> ProbeResult:
        """Fails at a fatal finding of `harness lint`."""
        from harness.lint.check import lint_source

        findings = lint_source(situation.source, Path(situation.path))
        fatal = [finding for finding in findings if finding.fatal]
        if fatal:
            return failed(f"line {fatal[0].line} [{fatal[0].rule}] {fatal[0].message}")
        return passed(f"no rule broken, {len(findings)} warnings")
