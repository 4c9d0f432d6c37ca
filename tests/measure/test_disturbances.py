"""The instrument itself: a known disturbance, on the device or beside it, must change the verdict."""

import os
import subprocess
import sys

import numpy as np
import pytest

from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import Timing
from cotenant.measure.sampler import Samples
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.sharing import Sharing

SECOND = 1_000_000_000
TIMING = Timing(start_ns=0, window_start_ns=SECOND, window_end_ns=3 * SECOND, deadline_ns=5 * SECOND)


def judged(*, own, device, package, package_cores=2, members=("cpu:0",), window_s=2.0):
    """The verdict of a trial on one core, given CPU seconds per second of the study, the device and its socket."""
    found = recorded(own, device, package, package_cores, members, window_s)
    return found["verdict"], found["reasons"]


def recorded(own, device, package, package_cores=2, members=("cpu:0",), window_s=2.0):  # noqa: PLR0917  (as `judged`)
    """The row of such a trial."""
    rows = [("cpu", "own_cpu_s", own)]
    for member in members:
        rows += [(member, "cpu_busy_s", device), (member, "package_busy_s", package)]
    columns = {"t_ns": [], "device": [], "sensor": [], "value": []}
    for name, sensor, rate in rows:
        for t_s in range(5):
            for column, value in zip(columns.values(), (t_s * SECOND, name, sensor, rate * t_s), strict=True):
                column.append(value)
    for member in members:
        for column, value in zip(columns.values(), (4 * SECOND, member, "package_cores", package_cores), strict=True):
            column.append(value)
    samples = Samples({name: np.array(values) for name, values in columns.items()}, ())
    trial = Trial.model_construct(
        number=0, block=0, order=0, mix="", solo=False, settings={}, tenants=(),
        sharing=Sharing(mode="processes"), load="closed(1)",
        window_s=window_s, lead_s=1.0, seed=1,
    )  # fmt: skip
    around = Circumstances("r", 0, "cpu", False, len(members), "now", TIMING, samples, (), ())
    return assemble(trial, [], around).trial


def test_a_quiet_socket_is_valid():
    assert judged(own=1.0, device=1.0, package=1.02) == ("valid", [])


def test_a_hog_in_the_device():
    verdict, [reason] = judged(own=0.5, device=1.0, package=1.0)
    assert verdict == "unstable"
    assert reason == "other processes used 50% of the device"


def test_a_hog_beside_the_device():
    verdict, [reason] = judged(own=1.0, device=1.0, package=2.0)
    assert verdict == "unstable"
    assert reason == "other processes used 50% of the socket whose cache and memory it shares"


def test_one_busy_core_of_sixty_four_is_a_small_share_of_the_socket():
    assert judged(own=1.0, device=1.0, package=2.0, package_cores=64) == ("valid", [])


def test_members_of_a_group_on_one_socket_count_it_once():
    both = ("cpu:0", "cpu:1")
    assert judged(own=2.0, device=1.0, package=2.0, members=both) == ("valid", [])
    verdict, _ = judged(own=2.0, device=1.0, package=3.0, package_cores=4, members=both)
    assert verdict == "unstable"


def test_short_windows_bear_some_other_work_and_record_it():
    """They are compared within a second, so that it shows in their scatter; a hog is caught all the same."""
    some = recorded(own=0.75, device=1.0, package=1.0, window_s=0.1)
    assert (some["verdict"], some["foreign_share"]) == ("valid", pytest.approx(0.25))
    verdict, [reason] = judged(own=0.5, device=1.0, package=1.0, window_s=0.1)
    assert (verdict, reason) == ("unstable", "other processes used 50% of the device")


STUDY = """
tenants:
  a: {workload: sgemm, params: {size: 256}}
mixes: [solo]
device: cpu:0
window: 1s
lead: 500ms
blocks: 1
"""
HOG = """
import numpy as np, os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
a, b = np.zeros(8_000_000), np.ones(8_000_000)
print("on", flush=True)
while True:
    a += b
"""


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core beside the device")
@pytest.mark.parametrize(
    ("device", "core"),
    [("cpu:0", 0), ("cpu:0", 1), ("cpu:each", 1), ("variability-mini", 1)],
    ids=["in the device", "beside the device", "in one core of a group", "in one core of the study of all cores"],
)
def test_a_real_hog_changes_the_verdict(tmp_path, device, core):
    """Like MLPerf's compliance tests: disturb the run on purpose, and check that it reports it."""
    import cotenant

    study = tmp_path / "s.yaml"
    study.write_text(STUDY)
    with subprocess.Popen([sys.executable, "-c", HOG, str(core)], stdout=subprocess.PIPE) as hog:
        try:
            hog.stdout.readline()
            if device == "variability-mini":
                result = cotenant.run(device, tenants=study, overrides=["blocks=2"], out=tmp_path / "runs")
            else:
                result = cotenant.run(study, device=device, out=tmp_path / "runs")
        finally:
            hog.kill()
    found = cotenant.sql("select verdict, failed_checks from trials where block >= 0", [result.folder]).rows
    assert found
    assert all(verdict != "valid" and "quiet_machine" in checks for verdict, checks in found)
