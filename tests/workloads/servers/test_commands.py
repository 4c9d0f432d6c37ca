"""A command that works by itself: its progress is measured, and it is suspended in trials of others."""

import asyncio
import sys
import time

import psutil
import pytest

from cotenant import run
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.store.reading import open_runs
from cotenant.study.files import study_from
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.yours import recognise

TRAIN = """
import sys, time
print("loading", flush=True)
for step in range(int(sys.argv[1])):
    time.sleep(0.02)
    print(f"step {step}: loss 1.0", flush=True)
    if len(sys.argv) > 2:
        open(sys.argv[2], "w").write(str(step))
sys.exit("out of data")
"""


@pytest.fixture
def train(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    return f"command: {sys.executable} {script}"


def built(name, **params):
    spec = WorkloadSpec(name=name, params=params)
    workload = recognise(name)
    workload.check(spec)
    return workload.build(spec, None)


def steps(client, count):
    async def several():
        return [await client.request(number, lambda *_: None) for number in range(count)]

    begin = time.monotonic()
    asyncio.run(several())
    return time.monotonic() - begin


@pytest.mark.parametrize("way", ["progress", "step_file"])
def test_a_request_is_one_report_of_progress(train, tmp_path, way):
    file = tmp_path / "step"
    params = {"progress": r"step \d+"} if way == "progress" else {"step_file": str(file)}
    one = built(f"{train} 1000 {file}", **params)
    try:
        one.client.begin(0)
        assert steps(one.client, 10) > 0.15
    finally:
        one.close()
    assert not psutil.pid_exists(one.client.pids()[0])


def test_it_is_suspended_between_windows(train):
    one = built(f"{train} 1000", progress="step")
    try:
        one.client.begin(0)
        steps(one.client, 2)
        one.client.rest()
        time.sleep(0.1)
        assert psutil.Process(one.client.pids()[0]).status() == psutil.STATUS_STOPPED
        one.client.begin(0)
        steps(one.client, 2)
    finally:
        one.close()


def test_a_command_that_ends_is_reported_with_its_last_lines(train):
    one = built(f"{train} 2", progress="step")
    try:
        with pytest.raises(RequestFailed, match=r"ended with exit code 1; its output ends: .* / out of data"):
            steps(one.client, 3)
    finally:
        one.close()


def test_commands_before_and_after_are_run(train, tmp_path):
    made = tmp_path / "made"
    one = built(f"{train} 9", progress="step", prepare=f"touch {made}", cleanup=f"rm {made}")
    assert made.exists()
    one.close()
    assert not made.exists()
    with pytest.raises(WorkloadError, match="the prepare command `false` ended with exit code 1"):
        built(f"{train} 9", progress="step", prepare="false")


def test_a_bad_expression_is_refused_in_one_sentence(train):
    with pytest.raises(WorkloadError, match=r"param `progress` is '\('.*: not a regular expression"):
        built(train, progress="(")
    with pytest.raises(WorkloadError, match="give `line` or `progress`, not both"):
        built(train, progress="a", line="b")


def test_a_training_script_is_a_tenant_that_is_idle_in_trials_of_others(tmp_path, train):
    tenants = {
        "train": {"workload": f"{train} 100000", "params": {"progress": "step"}},
        "null": {"workload": "null", "load": "poisson(50)"},
    }
    study = {"mixes": ["solo", "pairs"], "blocks": 1, "window": "1s", "lead": "100ms", "tenants": tenants}
    run(study_from(study), out=tmp_path)
    [folder] = [path.parent for path in tmp_path.rglob("manifest.json")]
    with open_runs([folder]) as runs:
        found = runs.con.execute(
            "SELECT mix, count(*) FROM requests JOIN trials USING (run, trial) "
            "WHERE tenant = 'train' AND in_window AND ok GROUP BY mix ORDER BY mix"
        ).fetchall()
    assert [mix for mix, _ in found] == ["train", "train+null"]
    assert all(10 < count <= 50 for _, count in found)
