"""Servers of tests that were cut off don't outlive their session."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import strays


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
    assert int(done.stdout) in strays.end()


def test_this_session_has_a_name():
    assert strays._named(int(os.environ[strays.NAME].partition(":")[0])) == os.environ[strays.NAME]
