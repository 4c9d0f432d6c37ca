"""The runner's memory doesn't grow: a trial leaves less than a kilobyte. benchmarks/growth.py runs thousands."""

import gc
import tracemalloc

import pytest

import cotenant
from cotenant.measure.events import TrialDone

STUDY = """name: growth
device: sim:t4
tenants:
  a: {workload: sgemm, params: {size: 256}}
mixes: [solo]
window: 50ms
lead: 10ms
blocks: 120
"""
WARM, TRIALS = 60, 120


@pytest.mark.slow
def test_a_trial_leaves_less_than_a_kilobyte_in_the_runner(tmp_path):
    (tmp_path / "growth.yaml").write_text(STUDY)
    held = []

    def hear(event):
        if isinstance(event, TrialDone):
            hear.done += 1
            if hear.done in {WARM, TRIALS}:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])

    hear.done = 0
    tracemalloc.start()
    try:
        cotenant.run(tmp_path / "growth.yaml", out=tmp_path / "runs", listener=hear)
    finally:
        tracemalloc.stop()
    assert hear.done >= TRIALS
    before, after = held
    assert (after - before) / (TRIALS - WARM) < 1000
