"""Small runs on this machine: the explanation matches what is known about their workloads."""

import math
import random
from dataclasses import replace

import pytest

from cotenant.analyse.comparison.pair import compare_pair
from cotenant.api.explain import explain
from cotenant.api.records import sql
from cotenant.api.run import run
from cotenant.store.evidence import evidence
from cotenant.store.reading import open_runs

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

STUDY = """
name: known
tenants:
  spin: {workload: spin, params: {work: 20000}, threads: 1}
  sleep: {workload: sleep}
  gemm: {workload: sgemm-mini, threads: 1}
mixes:
  - solo
  - groups:
      crowd: [spin, spin, spin, spin]
      apart: [spin, sleep]
sharing: [processes]
device: "cpu:0"
window: 400ms
lead: 150ms
blocks: {min: 8, max: 8}
budget: 90s
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("real")
    (place / "known.yaml").write_text(STUDY)
    done = run(place / "known.yaml", out=place / "runs")
    verdicts = sql(
        "select count(*) filter (list_contains(failed_checks, 'quiet_machine')) / count(*) from trials", [done.folder]
    )
    if verdicts.rows[0][0] > 0.2:
        pytest.skip("something else kept this machine busy")
    return done.folder


def test_workloads_are_bound_by_what_they_were_designed_for(folder):
    found = {one.of: one.bound for one in explain(folder).tenants}
    assert found["sleep"] == "waiting elsewhere"
    assert found["spin"] == "compute"
    assert found["gemm"] == "compute"


def test_four_spinners_on_one_core_lack_cores_and_a_sleeper_lacks_nothing(folder):
    found = explain(folder)
    crowd = next(story for story in found.mixes if story.cell.mix == "crowd")
    assert {fight.resource for fight in crowd.fights} == {"cores"}
    for split in found.splits:
        if split.cell.mix == "crowd":
            assert split.total.est > 1.3
            # The parts multiply to the total. What is left beside the cores is the core's own speed, which can change
            # between the trials alone and the shared ones.
            rest = split.total.est / split.parts["fewer cores"].est
            assert abs(math.log(rest)) < math.log(split.total.est) / 3
    apart = next(story for story in found.mixes if story.cell.mix == "apart")
    assert apart.stp.est > 1.5


def test_halves_of_one_run_are_hardly_ever_called_slower_than_each_other(folder):
    with open_runs([folder]) as runs:
        items = evidence(runs)
    alarms = 0
    for seed in range(20):
        first = set(random.Random(seed).sample(range(8), 4))
        halves = [
            [replace(item, seen=replace(item.seen, run=name)) for item in items if (item.seen.block in first) == half]
            for name, half in (("before", True), ("now", False))
        ]
        alarms += compare_pair(*halves).regression
    assert alarms <= 4  # the splits share their blocks: one odd block is in all of them
