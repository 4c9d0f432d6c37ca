"""GPU memory needed by a workload."""

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.batch_limit import need
from cotenant.workloads.protocol import Properties

GPU = find_gpu("t4")


def test_a_need_names_its_parts():
    parts = need(Properties(0, 100 << 20, None, None, 300 << 20), GPU)
    assert parts is not None
    assert (parts.weights >> 20, parts.activations >> 20, parts.context >> 20) == (100, 200, 380)
    assert parts.total >> 20 == 695  # 300 MiB of tensors, 5 % of them lost to fragmentation, 380 MiB of context
