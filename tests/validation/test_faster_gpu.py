"""Solo times on a faster GPU bound the device time on a slower one."""

import pytest

from validation.interference.anatomy import TYPICAL, Anatomy
from validation.interference.faster_gpu import bounded
from validation.interference.gavel_data import Gpu

SLOW, FAST = Gpu("slow", flops=1e12, bytes_per_s=1e11), Gpu("fast", flops=2e12, bytes_per_s=1.5e11)


def request(device_ms: float, host_ms: float = 1.0):
    anatomy = Anatomy(host=(host_ms, 0.0), device=(0.0, device_ms), fixed=TYPICAL[:2], sm_bound=TYPICAL[2:])
    return anatomy.trace(1, unit_ns=1e6)


def test_time_beyond_the_ratio_of_peak_rates_is_the_hosts():
    found = bounded({"job": request(30.0)}, {"job": request(10.0)}, SLOW, FAST)["job"]
    assert found.device_ns == pytest.approx(20e6, rel=1e-3)  # twice the peak rate: at most twice the time
    assert found.launch_ns.sum() == pytest.approx(30e6, rel=1e-3)  # the time alone stays as measured
    assert found.before_ns == 0


def test_times_within_the_ratio_stay_as_they_are():
    slower = {"job": request(20.0), "unknown": request(30.0)}
    assert bounded(slower, {"job": request(10.0)}, SLOW, FAST) == slower
