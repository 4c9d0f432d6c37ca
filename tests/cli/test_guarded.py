"""Whatever ends the working process, the command ends with a sentence and an exit code."""

import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Namespace

import pytest

from cotenant.cli import guarded
from tests.support import pace

GUARDED = "import os, signal, sys, time\nfrom cotenant.cli.guarded import guarded\n"
CPP = """
import ctypes
library = ctypes.CDLL("libstdc++.so.6")
library["_ZSt9terminatev"]()
"""


def start(body, **options):
    code = GUARDED + "def work():\n" + "".join(f"    {line}\n" for line in body.splitlines() if line)
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}\nsys.exit(guarded(work))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(body, **options):
    process = start(body, **options)
    out, err = process.communicate(timeout=pace.seconds(60))
    return process.returncode, out, err


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130, 143])
def test_an_exit_code_passes_through(code):
    assert ended(f"print('answer')\nreturn {code}") == (code, "answer\n", "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os.abort()", "a library ended the process (SIGABRT)"),
        (CPP, "a library ended the process (SIGABRT)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "a library ended the process (SIGSEGV)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "most likely by the system because memory ran out"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "the limit of CPU time (ulimit -t) was reached"),
    ],
    ids=["abort", "C++ without a handler", "bad address", "killed", "out of time"],
)
def test_a_process_that_is_killed_gets_one_sentence(body, words, monkeypatch):
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    code, out, err = ended(body)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert words in err
    assert [line.partition(": ")[0] for line in err.splitlines() if line] == ["error", "hint"]


def test_a_limit_of_time_that_kills_without_a_warning_is_named():
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (1, 1))
    code, _, err = ended("while True: pass", preexec_fn=limited)
    assert code == 1
    assert err.startswith("error: the limit of CPU time (ulimit -t) was reached.")


@pytest.mark.parametrize(("used_s", "reached"), [(7.8, True), (5.0, False)])
def test_on_a_busy_machine_the_kernel_reaches_that_limit_earlier(monkeypatch, used_s, reached):
    used = Namespace(ru_utime=used_s - 0.5, ru_stime=0.5)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, 10))
    monkeypatch.setattr(resource, "getrusage", lambda _: used)
    assert guarded._used_up_its_time() == reached


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_command_reaches_the_work(number):
    body = f"""
def hear(*_): sys.exit(77)
signal.signal({int(number)}, hear)
print('ready', flush=True)
time.sleep(60)
"""
    process = start(body)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.wait(pace.seconds(20)) == 77
    process.communicate()


def test_the_work_ends_with_the_command_however_that_ends():
    process = start("print(os.getpid(), flush=True)\ntime.sleep(60)")
    worker = int(process.stdout.readline())
    process.kill()
    process.communicate()
    pace.until(lambda: not _lives(worker), 20)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_work_is_done_even_if_no_process_can_be_started(monkeypatch):
    from cotenant.cli.guarded import guarded

    def refused():
        raise BlockingIOError(11, os.strerror(11))

    monkeypatch.setattr(os, "fork", refused)
    assert guarded(lambda: 3) == 3
