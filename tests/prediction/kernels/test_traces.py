"""Traces of real models: made without weights, cached, summarised, calibrated."""

import time

import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.simulated_gpu import kernels_for
from cotenant.errors import WorkloadError
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.software import EXECUTIONS
from cotenant.prediction.kernels.traces import calibrated, look_at
from cotenant.workloads.protocol import WorkloadSpec
from tests.support import pace

A100 = find_gpu("a100-sxm4-40gb")


def test_mistral_7b_becomes_kernels_in_seconds_without_its_weights():
    begin = time.monotonic()
    kernels = kernels_for(WorkloadSpec(name="mistral-7b", batch=1, seq=128, dtype="bfloat16", mode="prefill"))
    assert time.monotonic() - begin < pace.seconds(60), "seconds, with room for a busy machine"
    layers = kernels.weights.sum()
    assert layers == pytest.approx(2 * 7.1e9, rel=0.03), "every layer's weights are read once"
    costs = solo_costs(kernels, A100)
    assert costs.total_ns > layers / A100.bandwidth_gb_s, "reading them bounds the time"


def test_a_trace_is_cached():
    spec = WorkloadSpec(name="bert-base-mini", batch=2, dtype="float16")
    assert kernels_for(spec) is kernels_for(spec)
    assert kernels_for(spec) is not kernels_for(spec, EXECUTIONS["tensorrt"])


def test_a_trace_can_be_summarised():
    kernels = kernels_for(WorkloadSpec(name="resnet18-mini", batch=64, dtype="float16"))
    lines = look_at(kernels, solo_costs(kernels, A100), sms=A100.sms)
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert sum(line.count for line in lines) == len(kernels)
    assert [line.time_ns for line in lines] == sorted((line.time_ns for line in lines), reverse=True)
    by_name = {line.name: line for line in lines}
    assert by_name["convolution"].tensor_cores
    assert not by_name["relu"].tensor_cores
    assert all(0 <= line.sms <= A100.sms and line.waves > 0 for line in lines)


def test_a_measured_time_calibrates_a_trace():
    kernels = kernels_for(WorkloadSpec(name="resnet18-mini", batch=64, dtype="float16"))
    costs = solo_costs(kernels, A100)
    mine = calibrated(costs, 2e6)
    assert mine.total_ns == pytest.approx(2e6)
    assert mine.duration_ns / mine.total_ns == pytest.approx(costs.duration_ns / costs.total_ns)
    with pytest.raises(WorkloadError, match="above 0"):
        calibrated(costs, 0)


def test_a_workload_that_cannot_be_dry_run_is_refused():
    with pytest.raises(WorkloadError, match="can't be simulated"):
        kernels_for(WorkloadSpec(name="command:sleep 1"))
