"""A simulated training step has the stages of a real one."""

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import request_of
from cotenant.prediction.kernels.fusion import backward_begins
from cotenant.prediction.kernels.software import EXECUTIONS
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

MODELS = ("bert-base-mini", "gpt2-mini", "resnet18-mini")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("software", ["eager", "compile"])
def test_forward_backward_and_optimiser_follow_each_other(model, software):
    request = request_of(WorkloadSpec(name=model, batch=2, dtype="float16", train=True, software=software))
    assert request.stages == ("to_device", "forward", "backward", "optimiser")
    assert np.all(np.diff(request.slot) >= 0)
    assert np.all(np.bincount(request.slot, minlength=4) > 0)
    names = np.array(request.kernels.names)[request.kernels.name]
    gradients = [stage for name, stage in zip(names, request.slot, strict=True) if "backward" in name]
    assert set(gradients) == {2}
    assert {stage for name, stage in zip(names, request.slot, strict=True) if "optimiser" in name} == {3}


def test_the_backward_pass_is_about_twice_the_forwards_arithmetic():
    request = request_of(WorkloadSpec(name="bert-base-mini", batch=8, dtype="float16", train=True))
    flops = np.bincount(request.slot, weights=request.kernels.flops)
    assert flops[2] / flops[1] == pytest.approx(2.0, rel=0.05)


def test_inference_has_no_backward_pass():
    operators = find("bert-base-mini").properties(WorkloadSpec(name="bert-base-mini", dtype="float16")).operators
    assert backward_begins([operator.name for operator in operators]) == len(operators)


def test_no_kernel_is_fused_across_forward_and_backward():
    spec = WorkloadSpec(name="bert-base-mini", batch=2, dtype="float16", train=True)
    for software in ("compile", "tensorrt"):
        request = request_of(spec, EXECUTIONS[software])
        names = np.array(request.kernels.names)[request.kernels.name]
        assert "nll_loss_forward" in names[request.slot == 1][-1]
