"""The peak memory predicted by a dry run matches torch's allocator on a CPU."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cotenant.workloads import find
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stages_of, stand
from cotenant.workloads.models.describing import describe
from cotenant.workloads.protocol import WorkloadSpec
from tests.support.architectures import one_of_each

pytestmark = pytest.mark.slow

MINIS = one_of_each(entry for entry in model_entries() if entry.mini_of is not None)


def allocated_peak(entry, spec):
    """Weights, and the largest sum of live allocations reported by torch's allocator (kernels' own included)."""
    model, inputs = stand(entry, spec, device="cpu", dtype=torch.float32)
    weights = {id(t.untyped_storage()): t.untyped_storage().nbytes() for t in [*model.parameters(), *model.buffers()]}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        stages = stages_of(model, entry, spec, inputs, "cpu")
        for _ in range(2 if spec.train else 1):
            state = None
            for stage in stages:
                for _ in range(stage.repeat):
                    state = stage.run(state)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return sum(weights.values()) + peak


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_peak_memory_is_predicted_within_a_tenth(entry, batch):
    spec = WorkloadSpec(name=entry.name, batch=batch)
    assert describe(entry, spec).peak_memory_bytes == pytest.approx(allocated_peak(entry, spec), rel=0.1)


@pytest.mark.parametrize("name", ["gpt2-mini", "llama-3.2-1b-mini", "deepseek-v2-lite-mini"])
@pytest.mark.parametrize("mode", ["prefill", "decode", "generate"])
def test_peak_memory_of_generation_is_predicted(name, mode):
    entry = find(name).entry
    spec = WorkloadSpec(name=name, mode=mode, batch=4)
    assert describe(entry, spec).peak_memory_bytes == pytest.approx(allocated_peak(entry, spec), rel=0.1)


@pytest.mark.parametrize("name", ["bert-base-mini", "gpt2-mini", "resnet18-mini", "mobilenet-v2-mini", "vit-b-16-mini"])
@pytest.mark.parametrize("batch", [1, 8])
def test_peak_memory_of_training_is_predicted(name, batch):
    entry = find(name).entry
    spec = WorkloadSpec(name=name, train=True, batch=batch)
    assert describe(entry, spec).peak_memory_bytes == pytest.approx(allocated_peak(entry, spec), rel=0.1)


RESIDENT = """
import json, sys, ctypes, psutil, torch
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec
torch.set_num_threads(1)
class Cpu: torch_device, default_dtype = "cpu", "float32"
def run(spec):
    built = find(spec.name).build(spec, Cpu())
    state = None
    for stage in built.stages:
        for _ in range(stage.repeat): state = stage.run(state)
    return built
run(WorkloadSpec(name=sys.argv[1]))  # libraries and kernels are loaded
ctypes.CDLL("libc.so.6").malloc_trim(0)
me = psutil.Process()
before = me.memory_info().rss
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark begins again
kept = run(WorkloadSpec(name=sys.argv[1], batch=int(sys.argv[2])))
peak = next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
print(json.dumps(peak - before))
"""


def test_resident_memory_grows_as_predicted():
    """A large batch with freed memory returned at once: otherwise this would measure malloc's caching."""
    name, batch = "bert-base-mini", 256
    command = [sys.executable, "-c", RESIDENT, name, str(batch)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    predicted = describe(find(name).entry, WorkloadSpec(name=name, batch=batch)).peak_memory_bytes
    assert json.loads(done.stdout) == pytest.approx(predicted, rel=0.1)
