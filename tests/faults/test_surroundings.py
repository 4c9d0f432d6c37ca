"""The environment of a command: a clock set back, a quota, a memory limit, another user's files."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.cli.failures import explain
from cotenant.store.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from synthetic import trial

COTENANT = [sys.executable, "-m", "cotenant.cli.main"]
STUDY = """name: clock
tenants:
  a: {workload: sleep, params: {ms: 2}}
mixes: [solo]
window: 300ms
lead: 20ms
blocks: 2
"""
WALL = "import time; print(*[time.time() for _ in range(3)])"


@pytest.fixture
def stepping(tmp_path):
    """An environment in which the wall clock jumps back by a day after a few readings."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    around = {**os.environ, "LD_PRELOAD": str(library), "CLOCK_AFTER": "1"}
    seen = subprocess.run([sys.executable, "-c", WALL], env=around, capture_output=True, text=True, check=True).stdout
    first, *_, last = map(float, seen.split())
    if first - last < 80_000:
        pytest.skip("this Python's clock can't be stepped")
    return {**around, "CLOCK_AFTER": "4"}


@pytest.mark.slow
def test_setting_the_wall_clock_back_changes_no_duration(tmp_path, stepping):
    import cotenant

    (tmp_path / "clock.yaml").write_text(STUDY)
    done = subprocess.run(
        [*COTENANT, "run", "clock.yaml", "--out", "runs", "-q"],
        cwd=tmp_path, env=stepping, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in {0, 2}, done.stderr
    [run] = (tmp_path / "runs" / "clock").iterdir()
    assert not cotenant.verify([run])[0].damaged
    [(count, shortest, longest)] = cotenant.sql(
        "select count(*), min(done_ns - started_ns), max(done_ns - started_ns) from requests "
        "where ok and trial < 1000000",  # higher numbers are trials of the instrument
        [run],
    ).rows
    assert count > 20
    assert 1_000_000 < shortest <= longest < 60_000_000_000


def test_a_quota_is_a_full_disk():
    failure = explain(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "runs/a"))
    assert failure.code == 1
    assert failure.sentence == "the disk is full (runs/a)."


@pytest.fixture
def small_group():
    """A control group limited to 300 MB; yields the file that adds processes to it."""
    name = f"cotenant-test-{os.getpid()}"
    for home, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup") / home / name
        try:
            group.mkdir()
            (group / limit).write_text("300000000")
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        try:
            yield group / "cgroup.procs"
        finally:
            group.rmdir()
        return
    pytest.skip("a control group can't be made here")


def test_a_memory_limit_ends_in_one_sentence(small_group):
    """The kernel kills the larger of the two processes; the other one reports it."""
    code = (
        "import sys; from cotenant.cli.guarded import guarded\n"
        "sys.exit(guarded(lambda: len(b'x' * 2_000_000_000) and 0))"
    )
    join = f'echo $$ > {small_group} && exec {sys.executable} -c "$0"'
    done = subprocess.run(["sh", "-c", join, code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert done.stderr.startswith("error: the process was killed from outside, most likely by the system")


def test_another_users_files_are_one_sentence(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"study": "name: s\ntenants: {a: {workload: sleep}}\n"})
    run.commit(trial(0))
    as_user = ["setpriv", "--reuid", "65534", "--clear-groups"]
    ready = subprocess.run(
        [*as_user, sys.executable, "-c", "import cotenant"], cwd="/", capture_output=True, check=False
    )
    if shutil.which("setpriv") is None or ready.returncode:
        pytest.skip("another user can't run this Python")
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    (run.path / "manifest.json").chmod(0o600)
    done = subprocess.run(
        [*as_user, *COTENANT, "show", str(run.path)],
        cwd="/", env={**os.environ, "HOME": "/nonexistent"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {run.path / 'manifest.json'} can't be read: permission denied.")
