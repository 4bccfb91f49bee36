"""Nothing that a submission starts outlives it, however it hides; nor does anything outlive the harness."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from harness.evaluation.process_tree import adopt_orphans, end_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
REPOSITORY = Path(__file__).parents[1]
# Every sleep below lasts 300 s: longer than any wait here, and not for ever if a test fails.


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def marked(mark: str) -> list[int]:
    """The living processes with this text in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes() and is_alive(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def read_pid(path: Path) -> int:
    assert until(lambda: path.is_file() and path.read_text().strip(), 20), f"{path.name} was not written"
    return int(path.read_text())


@pytest.fixture
def start(tmp_path):
    """Start a group leader with a mark in its environment: (process, mark)."""
    adopt_orphans()
    started = []

    def begin(code: str) -> tuple[subprocess.Popen, str]:
        mark = f"TREE_MARK={uuid.uuid4().hex}"
        name, _, value = mark.partition("=")
        process = subprocess.Popen(
            [sys.executable, "-c", f"import os, subprocess, sys, time\nhere = {str(tmp_path)!r}\n{code}"],
            env={**os.environ, name: value},
            start_new_session=True,
        )
        started.append((process, mark))
        return process, mark

    yield begin
    for process, mark in started:
        for pid in [process.pid, *marked(mark)]:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait()


NOTE = "open(here + '/{0}', 'w').write(str({1}))"


@pytest.mark.parametrize(
    "code",
    [
        # a child, and its own child
        "p = subprocess.Popen(['sh', '-c', 'sleep 300 & echo $! > ' + here + '/pid; wait'])\ntime.sleep(300)",
        # a daemon: a session of its own
        "p = subprocess.Popen(['sleep', '300'], start_new_session=True)\nNOTE(p.pid)\ntime.sleep(300)",
        # a daemon whose parent has gone
        "subprocess.run(['sh', '-c', 'setsid sleep 300 & echo $! > ' + here + '/pid'])\ntime.sleep(300)",
        # in the group, with an empty environment and no parent
        "subprocess.run(['env', '-i', 'sh', '-c', 'sleep 300 & echo $! > ' + here + '/pid'])\ntime.sleep(300)",
        # an empty environment and a session of its own, below a living parent
        "p = subprocess.Popen(['sleep', '300'], env={}, start_new_session=True)\nNOTE(p.pid)\ntime.sleep(300)",
        # the leader has gone already
        "p = subprocess.Popen(['sleep', '300'], start_new_session=True)\nNOTE(p.pid)",
        # one that ignores every signal that can be ignored
        "p = subprocess.Popen(['sh', '-c', \"trap '' TERM INT HUP; sleep 300\"])\nNOTE(p.pid)\ntime.sleep(300)",
    ],
    ids=["grandchild", "daemon", "orphaned daemon", "orphan without mark", "without mark", "of a dead leader", "deaf"],
)  # fmt: skip
def test_every_process_of_a_tree_is_ended(start, tmp_path, code):
    process, mark = start(code.replace("NOTE(p.pid)", NOTE.format("pid", "p.pid")))
    pid = read_pid(tmp_path / "pid")
    if "time.sleep" not in code:
        process.wait()
    assert is_alive(pid)
    end_tree(process.pid, mark)
    assert until(lambda: not is_alive(pid), 5)
    assert not is_alive(process.pid)
    assert marked(mark) == []


def test_a_process_that_keeps_forking_is_ended(start, tmp_path):
    # Each generation starts the next in a new session and leaves: always another process, with the mark.
    (tmp_path / "hop.sh").write_text(f"echo $$ > {tmp_path}/pid\nsleep 0.05\nsetsid sh {tmp_path}/hop.sh &\n")
    process, mark = start("subprocess.run(['sh', here + '/hop.sh'])\ntime.sleep(300)")
    first = read_pid(tmp_path / "pid")
    assert until(lambda: (tmp_path / "pid").read_text().strip() not in ("", str(first)), 20), "it never hopped"
    end_tree(process.pid, mark)
    assert until(lambda: marked(mark) == [], 5)


def test_a_name_with_brackets_and_spaces_hides_nothing(start, tmp_path):
    program = tmp_path / "a) S 1 (b c"
    shutil.copy(shutil.which("sleep"), program)
    call = f"p = subprocess.Popen([{str(program)!r}, '300'], env={{}}, start_new_session=True)"
    process, mark = start(f"{call}\n{NOTE.format('pid', 'p.pid')}\ntime.sleep(300)")
    pid = read_pid(tmp_path / "pid")
    end_tree(process.pid, mark)
    assert until(lambda: not is_alive(pid), 5)


def test_others_are_left_alone(start):
    process, mark = start("time.sleep(300)")
    other, other_mark = start("time.sleep(300)")
    assert until(lambda: marked(mark) and marked(other_mark), 10)
    end_tree(process.pid, mark)
    assert not is_alive(process.pid)
    assert is_alive(other.pid)


def test_ending_a_tree_twice_is_harmless(start):
    process, mark = start("time.sleep(300)")
    end_tree(process.pid, mark)
    process.wait()
    end_tree(process.pid, mark)
    assert marked(mark) == []


# -- the whole command --------------------------------------------------------------------------------------------

SLEEPER = """
import os, subprocess, time

def custom_kernel(data):
    daemon = subprocess.Popen(["sleep", "300"], start_new_session=True)
    here = {here!r}
    with open(here + "/pids.part", "w") as file:
        file.write(f"{{os.getpid()}} {{daemon.pid}}")
    os.rename(here + "/pids.part", here + "/pids")
    time.sleep(300)
"""


@pytest.fixture
def evaluating(affine, tmp_path):
    """`harness eval` on a submission that sleeps: (process, mark, pids of the child and of its daemon, temporary)."""
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    submission = tmp_path / "sleeper.py"
    submission.write_text(SLEEPER.format(here=str(tmp_path)))
    mark = f"RUN_MARK={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "harness", "eval", str(submission), "--problem", str(affine.root), "--device", "cpu",
            "--json", str(out / "result.json"), "--out", str(out / "report.txt"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(temporary), name: value},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores interrupts, and so would everything started from it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert until(lambda: (tmp_path / "pids").is_file() or process.poll() is not None, 60)
    assert process.poll() is None, process.communicate()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(is_alive(pid) for pid in pids)
    yield process, mark, pids, temporary
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_leaves_no_process_no_folder_and_no_file(evaluating, tmp_path, number, code, said):
    process, mark, pids, temporary = evaluating
    began = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    # Ending a tree takes two seconds at most; the rest is the interpreter's own end on a loaded machine.
    assert time.monotonic() - began < 10
    assert process.returncode == code
    assert errors.splitlines()[-1] == f"error: {said}"
    assert "Traceback" not in errors
    assert marked(mark) == []
    assert not any(is_alive(pid) for pid in pids)
    assert list(temporary.glob("harness-*")) == []
    assert list((tmp_path / "out").iterdir()) == []


def test_the_child_ends_when_the_harness_is_killed(evaluating):
    process, _, (child, _), _ = evaluating
    process.kill()
    process.wait()
    assert until(lambda: not is_alive(child), 5)
