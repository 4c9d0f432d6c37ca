"""Which of torch's nested operators count as kernels on a CPU, and whose they are."""

import threading
from dataclasses import dataclass

import pytest
import torch

from cotenant.measure.profile.tenant_side import kernels_of, working_operators


@dataclass
class Event:
    text: str
    start: int
    length: int
    resource: int = 1
    kind: str = "CPU"
    correlation: int = 0
    linked: int = 0
    activity: str = "cpu_op"

    def name(self):
        return self.text

    def start_ns(self):
        return self.start

    def duration_ns(self):
        return self.length

    def device_resource_id(self):
        return self.resource

    def device_index(self):
        return 0

    def device_type(self):
        return f"DeviceType.{self.kind}"

    def correlation_id(self):
        return self.correlation

    def linked_correlation_id(self):
        return self.linked

    def activity_type(self):
        return self.activity

    def is_user_annotation(self):
        return False


def test_a_delegating_operator_is_not_the_kernel():
    events = [
        Event("aten::linear", 0, 100),
        Event("aten::t", 2, 5),
        Event("aten::addmm", 10, 85),
        Event("aten::copy_", 12, 20),
        Event("aten::relu", 100, 10),
        Event("aten::clamp_min", 101, 8),
        Event("aten::softmax", 200, 50, resource=2),
    ]
    assert {event.name() for event in working_operators(events)} == {"aten::addmm", "aten::clamp_min", "aten::softmax"}


def test_kernels_of_a_device_belong_to_the_thread_that_launched_them():
    events = [
        Event("cudaLaunchKernel", 0, 5, resource=101, correlation=7),
        Event("cudaLaunchKernel", 0, 5, resource=102, correlation=8),
        Event("aten::mm", 0, 5, resource=101),
        Event("gemm", 10, 50, resource=13, kind="CUDA", linked=7, activity="kernel"),
        Event("conv", 10, 50, resource=14, kind="CUDA", correlation=8, activity="kernel"),
        Event("backward", 70, 5, resource=14, kind="CUDA", correlation=9, activity="kernel"),
        Event("Memcpy HtoD", 80, 5, resource=13, kind="CUDA", correlation=7, activity="gpu_memcpy"),
    ]
    columns = kernels_of(events, {101: "a", 102: "b"})
    assert columns["tenant"].tolist() == ["a", "b", "b", "a"]
    assert columns["device"].tolist() == ["cuda:0"] * 4
    assert columns["name"][3] == "[CUDA Memcpy HtoD]"


def test_torch_itself_on_two_threads_of_one_process():
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile

    matrix, names = torch.randn(64, 64), {}

    def work(name):
        names[threading.get_native_id()] = name
        for _ in range(3):
            torch.mm(matrix, matrix)

    with profile(
        activities=[ProfilerActivity.CPU], experimental_config=_ExperimentalConfig(profile_all_threads=True)
    ) as p:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    columns = kernels_of(p.profiler.kineto_results.events(), names)
    found = list(zip(columns["tenant"].tolist(), columns["name"].tolist(), strict=True))
    assert found.count(("a", "aten::mm")) == found.count(("b", "aten::mm")) == 3
    assert columns["duration_ns"].min() > 0


@pytest.mark.parametrize("events", [[], [Event("aten::mm", 0, 0)]])
def test_events_without_duration_give_no_kernels(events):
    assert not len(kernels_of(events, {1: "a"})["name"])
