"""The child cannot read the parent's memory, environment or command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shield is Linux's")

# A parent with a secret in its arguments, environment and memory, and a child that looks for it.
SCRIPT = """
import os, subprocess, sys
sys.path.insert(0, {root!r})
from harness.evaluation.shield import give_up_tracing, hide_from_children
CHILD = '''
import os, sys
sys.path.insert(0, {root!r})
{child_shield}
seen = []
for name in ("cmdline", "environ", "maps", "mem", "fd"):
    path = f"/proc/{{os.getppid()}}/{{name}}"
    try:
        if name == "fd":
            data = [os.readlink(path + "/" + fd) for fd in os.listdir(path)]
        else:
            data = open(path, "rb").read(4096)
    except OSError as error:
        data = b""
    if name in ("cmdline", "environ"):
        seen += [name] if b"31337" in data else []
    elif data:
        seen.append(name)
print(",".join(seen))
'''
{parent_shield}
print(subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True).stdout.strip())
"""


def what_a_child_sees(root, *, shielded: bool) -> str:
    script = SCRIPT.format(
        root=str(root),
        parent_shield="hide_from_children()" if shielded else "",
        child_shield="from harness.evaluation.shield import give_up_tracing; give_up_tracing()" if shielded else "",
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "--seed", "31337"],
        env={"PATH": "/usr/bin:/bin", "POPCORN_SEED": "31337"},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_a_shielded_parent_shows_nothing(pytestconfig):
    assert what_a_child_sees(pytestconfig.rootpath, shielded=True) == ""


def test_without_the_shield_the_same_child_sees_the_seed(pytestconfig):
    seen = what_a_child_sees(pytestconfig.rootpath, shielded=False)
    assert "cmdline" in seen
    assert "environ" in seen
