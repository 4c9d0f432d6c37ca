"""The runner's memory doesn't grow: a trial leaves less than a kilobyte. benchmarks/growth.py runs thousands."""

import json
import subprocess
import sys

import pytest

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
RUN = f"""
import gc, json, sys, tracemalloc
import cotenant
from cotenant.measure.events import TrialDone

held, done = [], 0

def hear(event):
    global done
    if isinstance(event, TrialDone):
        done += 1
        if done in {{{WARM}, {TRIALS}}}:
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])

tracemalloc.start()
cotenant.run(sys.argv[1], out=sys.argv[2], listener=hear)
print(json.dumps(held))
"""


@pytest.mark.slow
def test_a_trial_leaves_less_than_a_kilobyte_in_the_runner(tmp_path):
    study = tmp_path / "growth.yaml"
    study.write_text(STUDY)
    # In a process of its own: threads and caches of other tests allocate too.
    ended = subprocess.run(
        [sys.executable, "-c", RUN, study, tmp_path / "runs"], capture_output=True, text=True, check=True
    )
    before, after = json.loads(ended.stdout)
    assert (after - before) / (TRIALS - WARM) < 1000
