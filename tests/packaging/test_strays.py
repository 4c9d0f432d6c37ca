"""Servers of tests that were cut off don't outlive their session."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support import pace, strays


def started(session):
    """A process like a stand-in server: with a session of its own, so that no signal to its parent reaches it."""
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, strays.NAME: session}, start_new_session=True)
    strays.await_variables(child.pid)
    return child


def test_what_a_session_started_ends_with_it():
    mine, others = started("1:0-of-a-test"), started(strays.owner())
    try:
        assert strays.end("1:0-of-a-test") == [mine.pid]
        assert mine.wait() == -signal.SIGKILL
        assert others.poll() is None, "a session that is still under way keeps its processes"
    finally:
        others.kill()
        others.wait()


def test_what_a_killed_session_left_ends_with_the_next():
    script = """
import os, signal, subprocess, sys
from tests.support import strays
os.environ[strays.NAME] = strays.owner()
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=-3, stderr=-3)
strays.await_variables(child.pid)
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    strays.end()
    assert ended(int(done.stdout)), "by this session or by another of these tests that ended meanwhile"


def ended(process, within_s=60):
    """Whether a process goes away; one without a parent may stay as an entry that nobody has collected."""
    deadline = time.monotonic() + pace.seconds(within_s)
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_this_session_has_a_name():
    assert strays._named(int(os.environ[strays.NAME].partition(":")[0])) == os.environ[strays.NAME]
