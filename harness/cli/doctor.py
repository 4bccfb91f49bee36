"""`harness doctor`: what this machine can do."""

from __future__ import annotations

from dataclasses import asdict

import click

from harness.cli.options import json_option
from harness.cli.output import Output


@click.command("doctor", short_help="What this machine can do, and how to get what is missing.")
@json_option
def command(json_target: str | None) -> None:
    """Say what this machine has (devices, torch, Triton, aiter, compilers), and how to get what is missing."""
    from rich.table import Table

    from harness.targets.capabilities import capabilities

    output = Output(json_target)
    found = capabilities()
    table = Table("", "here", "found", "advice")
    for capability in found:
        table.add_row(capability.name, capability.status, capability.found, capability.advice or "–")
    output.console.print(table)
    output.json({"capabilities": [asdict(capability) for capability in found]})
