"""However the runner ends, records stay, no process is left behind, and `--resume` continues."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scenes import alive_in, gone_from

import cotenant
from cotenant.cli.failures import explain
from cotenant.devices import find_device
from cotenant.errors import RunFolderError
from cotenant.measure.events import TrialDone
from cotenant.measure.locking import device_lock
from cotenant.measure.run_plan import plan_for
from cotenant.store.folder import RunFolder
from cotenant.study.files import load_study
from tests.support import pace

pytestmark = [pytest.mark.slow, pytest.mark.long]

RUNNER = Path(__file__).with_name("runner.py")
STUDY = """
name: faults
tenants:
  a: {workload: sleep, params: {ms: 2}}
  b: {workload: "misbehaviour:has_a_child"}
mixes: [solo, pairs]
window: 500ms
lead: 20ms
blocks: 2
"""
INSTRUMENT = {1_000_000, 1_000_001}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "faults.yaml"
    path.write_text(STUDY)
    return path


def start(when, *arguments, **options):
    command = [sys.executable, str(RUNNER), when, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finished(when, *arguments):
    process = start(when, *arguments)
    out, err = process.communicate(timeout=pace.seconds(240))
    assert "Traceback" not in err
    return process.returncode, out, err


def trials_of(study):
    """The figures of an uninterrupted run."""
    plan = plan_for(load_study(study), find_device("cpu"))
    return INSTRUMENT | {trial.number for number in (0, 1) for trial in plan.block(number).trials}


def whole_blocks(study):
    """What may be on disk at any moment: no trial of a block, or all of them."""
    plan = plan_for(load_study(study), find_device("cpu"))
    first, second = ({trial.number for trial in plan.block(number).trials} for number in (0, 1))
    return [frozenset(), frozenset(first), frozenset(first | second)]


def begun(tmp_path):
    """Runs that got as far as a manifest."""
    return [path for path in (tmp_path / "runs" / "faults").glob("*") if (path / "manifest.json").exists()]


def only_run(tmp_path):
    [path] = begun(tmp_path)
    return path


def assert_device_is_free():
    with device_lock(find_device("cpu").lock_keys(), run="the next"):
        pass


MOMENTS = ("step:2", "step:10", "step:21", "step:28", "after:1.2", "step:34", "step:43", "after:2")
"""Before there is a folder, while it is created, while tenants start, in trials, and between any two write calls."""


def test_a_repeatedly_killed_runner_loses_and_duplicates_nothing(tmp_path, study):
    arguments = ("run", study, "--out", tmp_path / "runs", "-q")
    before: frozenset[int] = frozenset()
    seen = []
    for moment in MOMENTS:
        code, _, err = finished(moment, *arguments)
        assert_device_is_free()
        assert gone_from(tmp_path) == [], "tenants, and what they started, die with the runner"
        assert code in {-signal.SIGKILL, 0, 2}, err
        if not begun(tmp_path):
            continue
        path = only_run(tmp_path)
        assert before <= RunFolder.open(path).committed()
        before = RunFolder.open(path).committed()
        assert before - INSTRUMENT in whole_blocks(study), "a chunk is complete or missing"
        seen.append((code, len(before)))
        arguments = ("run", "--resume", path, "-q")
    assert len({count for code, count in seen if code == -signal.SIGKILL}) >= 3, f"it died at many points: {seen}"
    code, _, err = finished("never", *arguments)
    assert code in {0, 2}, err
    path = only_run(tmp_path)
    assert RunFolder.open(path).committed() == trials_of(study)
    assert not (path / "partial").exists() or not list((path / "partial").iterdir())
    rows = cotenant.sql("select trial, count(*) from trials group by trial", [path]).rows
    assert dict(rows) == dict.fromkeys(trials_of(study), 1)
    served = cotenant.sql("select trial, tenant, count(*), count(distinct seq) from requests group by all", [path]).rows
    assert {row[0] for row in served} == trials_of(study)
    assert all(count == distinct > 0 for _, _, count, distinct in served)
    assert RunFolder.open(path).manifest["state"] == "complete"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_terminated_run_notes_it_in_its_manifest(tmp_path, study, number, code):
    study.write_text(STUDY.replace("blocks: 2", "blocks: 2\npause: 5s"))
    process = start("never", "run", study, "--out", tmp_path / "runs", start_new_session=True)
    pace.until(lambda: list(tmp_path.glob("runs/faults/*/trials/00*")), 180)
    os.kill(process.pid, number)  # like a service manager: to the runner only
    _, err = process.communicate(timeout=pace.seconds(180))
    assert process.returncode == code, err
    assert err.splitlines()[-1].startswith("interrupted: finished trials are on disk")
    assert RunFolder.open(only_run(tmp_path)).manifest["state"] == "interrupted"
    assert alive_in(tmp_path) == []


def test_two_ctrl_c_at_once_end_a_run_as_one(tmp_path, study):
    study.write_text(STUDY.replace("blocks: 2", "blocks: 2\npause: 5s"))
    process = start("never", "run", study, "--out", tmp_path / "runs", start_new_session=True)
    pace.until(lambda: list(tmp_path.glob("runs/faults/*/trials/00*")), 180)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=pace.seconds(180))
    assert process.returncode == 130, err
    assert err.splitlines()[-1].startswith("interrupted: finished trials are on disk")
    assert RunFolder.open(only_run(tmp_path)).manifest["state"] == "interrupted"
    assert alive_in(tmp_path) == []


def test_ctrl_c_ends_a_run_in_order(tmp_path, study):
    study.write_text(STUDY.replace("blocks: 2", "blocks: 2\npause: 2s"))  # it is asked to stop early
    process = start("never", "run", study, "--out", tmp_path / "runs", start_new_session=True)
    pace.until(lambda: list(tmp_path.glob("runs/faults/*/trials/00*")), 180)
    os.killpg(process.pid, signal.SIGINT)  # like a terminal: to the entire foreground group
    _, err = process.communicate(timeout=pace.seconds(180))
    path = only_run(tmp_path)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == (
        f"interrupted: finished trials are on disk; continue with `cotenant run --resume {path}`"
    )
    assert alive_in(tmp_path) == [], "at once: the runner ended them itself"
    assert RunFolder.open(path).manifest["state"] == "interrupted"
    code, _, err = finished("never", "run", "--resume", path, "-q")
    assert code in {0, 2}, err
    assert RunFolder.open(path).committed() == trials_of(study)
    assert RunFolder.open(path).manifest["state"] == "complete"
    sessions = cotenant.sql("select distinct session from trials order by 1", [path]).rows
    assert sessions == ((0,), (1,))


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a private file system can't be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_ends_a_run_in_one_sentence_and_loses_nothing(study, small_disk):
    filler = small_disk / "filler"

    def fill_after_the_second_trial(event):
        if isinstance(event, TrialDone):
            told.append(event.trial)
        if len(told) == 2 and not filler.exists():
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(b"\0" * 4096):
                        pass
                except OSError:
                    return

    told: list[int] = []
    with pytest.raises(RunFolderError) as refusal:
        cotenant.run(study, out=small_disk / "runs", listener=fill_after_the_second_trial)
    path = only_run(small_disk)
    failure = explain(refusal.value)
    assert failure.code == 1
    assert failure.sentence.endswith(f" to {path}: no space left on device.")
    assert failure.hint == (
        f"All 5 earlier trials are safe. Free some space, then resume: cotenant run --resume {path}"
    )
    assert RunFolder.open(path).committed() == INSTRUMENT | set(told)
    assert_device_is_free()
    filler.unlink()
    assert cotenant.run(None, resume=path).why == "all blocks done"
    assert RunFolder.open(path).committed() == trials_of(study)


def test_a_tenant_that_cannot_be_built_ends_the_run_before_its_first_trial(tmp_path):
    (tmp_path / "faults.yaml").write_text("tenants: {bad: {workload: 'misbehaviour:raises_when_built'}}\nmixes: [solo]")
    code, out, err = finished("never", "run", tmp_path / "faults.yaml", "--out", tmp_path / "runs", "-q")
    assert code == 1
    assert out == ""
    sentence = "error: bad could not be built: `misbehaviour:raises_when_built` raised while it was building: "
    assert err.startswith(sentence + "KeyError: 'width' (misbehaviour.py:"), err
    assert RunFolder.open(only_run(tmp_path)).committed() == INSTRUMENT
    assert_device_is_free()
