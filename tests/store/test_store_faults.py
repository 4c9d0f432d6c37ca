"""No committed trial is ever lost: SIGKILL at any point, a full disk, a file size limit."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant.errors import RunFolderError
from cotenant.store.folder import RunFolder
from tests.store.synthetic import connect, trial

ROOT = str(Path(__file__).parents[2])

COMMIT_FOR_EVER = f"""
import sys
sys.path.insert(0, {ROOT!r})
from itertools import count
from pathlib import Path
from tests.store.synthetic import trial
from cotenant.store.folder import RunFolder

run = RunFolder.open(Path(sys.argv[1]))
run.resume()
for number in count():
    if number not in run.committed():
        run.commit(trial(number, requests=20_000))
        run.update_manifest(last=number)
        print(number, flush=True)
"""

DIE_AT_EACH_STEP = f"""
import os, shutil, signal, sys
sys.path.insert(0, {ROOT!r})
import duckdb  # once, for all the children; it has no threads before there is a connection
from itertools import count
from pathlib import Path
from tests.store.synthetic import trial
from cotenant.store.folder import RunFolder

def die_at(step):
    done = 0
    def deadly(call):
        def wrapped(*args, **kwargs):
            nonlocal done
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        return wrapped
    for name in ("open", "fsync", "mkdir", "rename", "replace"):
        setattr(os, name, deadly(getattr(os, name)))

for step in count(1):
    copy = Path(sys.argv[1] + str(step))
    shutil.copytree(sys.argv[1], copy)
    child = os.fork()
    if child == 0:
        run = RunFolder.open(copy)
        die_at(step)
        run.commit(trial(1))
        run.update_manifest(last=1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(copy, flush=True)
    if status != signal.SIGKILL:
        sys.exit(status)
"""

FILES_UP_TO = f"""
import resource, sys
sys.path.insert(0, {ROOT!r})
from pathlib import Path
from tests.store.synthetic import trial
from cotenant.errors import RunFolderError
from cotenant.store.folder import RunFolder

run = RunFolder.open(Path(sys.argv[1]))
run.commit(trial(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    run.commit(trial(1, requests=200_000))
except RunFolderError as error:
    print(error.message)
    print(error.hint)
run.commit(trial(2))
"""


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "run", {})


def start(script: str, *args: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)], stdout=subprocess.PIPE, text=True)


def requests_by_trial(path: Path) -> dict[int, int]:
    """Read every row of every committed trial."""
    counted = "SELECT trial, count(*) FROM requests JOIN trials USING (run, trial) GROUP BY trial"
    with connect([path]) as con:
        return dict(con.execute(counted).fetchall())


def test_a_run_killed_at_random_points_loses_and_duplicates_nothing(run):
    rng = random.Random(5)
    reported: list[int] = []
    for _ in range(5):
        process = start(COMMIT_FOR_EVER, run.path)
        reported.append(int(process.stdout.readline()))
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        reported += [int(number) for number in output.split()]
        whole = RunFolder.open(run.path).committed()
        assert requests_by_trial(run.path) == dict.fromkeys(whole, 40_000)
        assert set(reported) <= whole
        assert whole <= set(range(len(whole))), "trials are committed in order, so there is no gap"
    assert len(reported) == len(set(reported)), "no trial was carried out twice once it was reported"
    assert len(whole) >= 5


def test_a_kill_at_each_step_of_a_commit_leaves_all_or_nothing(run):
    run.commit(trial(0))
    process = start(DIE_AT_EACH_STEP, run.path)
    copies = process.communicate()[0].splitlines()
    assert process.returncode == 0, "the last one came through"
    assert len(copies) > 10
    seen = []
    for copy in map(Path, copies):
        reopened = RunFolder.open(copy)
        reopened.resume()
        assert requests_by_trial(copy) == dict.fromkeys(reopened.committed(), 8)
        seen.append((sorted(reopened.committed()), reopened.manifest.get("last")))
    assert [state for state, _ in itertools.groupby(seen)] == [([0], None), ([0, 1], None), ([0, 1], 1)]


def test_a_file_size_limit_fails_only_one_trial(run):
    output, _ = start(FILES_UP_TO, run.path).communicate()
    message, hint = output.splitlines()
    assert message == f"Trial 1 could not be written to {run.path}: file too large."
    assert hint == f"All 1 earlier trials are safe. Free some space, then resume: cotenant run --resume {run.path}"
    assert requests_by_trial(run.path) == {0: 8, 2: 8}
    assert list((run.path / "partial").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    place = tmp_path / "small disk"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or not mount or not umount:
        pytest.skip("needs root to mount a small file system")
    command = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run([umount, "-l", place], check=True)


def fill(run):
    for number in range(100):
        run.commit(trial(number, requests=10_000))


def test_a_full_disk_fails_one_trial_with_one_sentence(small_disk):
    run = RunFolder.create(small_disk / "run", {})
    with pytest.raises(RunFolderError) as caught:
        fill(run)
    number = len(run.committed())
    assert number > 0
    assert caught.value.message == f"Trial {number} could not be written to {run.path}: no space left on device."
    assert caught.value.hint == (
        f"All {number} earlier trials are safe. Free some space, then resume: cotenant run --resume '{run.path}'"
    )
    assert requests_by_trial(run.path) == dict.fromkeys(range(number), 20_000)
    assert list((run.path / "partial").iterdir()) == []


def test_a_full_disk_never_destroys_the_manifest(small_disk):
    run = RunFolder.create(small_disk / "run", {"seed": 7})
    with pytest.raises(RunFolderError, match=r"^The manifest of .* could not be written: no space left on device\."):
        run.update_manifest(calibration="x" * 2_000_000)
    assert RunFolder.open(run.path).manifest == run.manifest
    assert run.manifest["seed"] == 7
    assert "calibration" not in run.manifest
    run.commit(trial(0))
    assert run.committed() == {0}
