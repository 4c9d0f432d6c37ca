"""Measured solo times calibrate host and device; what they can't determine stays as simulated."""

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.devices.simulated.solo_times import solo_times
from cotenant.errors import DeviceError
from cotenant.prediction.calibration.solo import SoloPoint, fit_solos
from cotenant.workloads.protocol import WorkloadSpec

GPU = open_simulated("sim:a100-sxm4-40gb")


def solo(batch, *, host=1.0, device=1.0, kernels=50):
    launched = np.cumsum(np.full(kernels, 30e3))
    remaining = np.cumsum(np.full(kernels, 2e3 * batch)[::-1])[::-1]
    time = SoloPoint(batch, 1.0, launched, remaining, 50e3)
    measured = time.explained_ns(host, device, 0.0)
    return SoloPoint(batch, measured, launched, remaining, 50e3)


def test_three_batches_separate_a_slow_host_from_a_slow_device():
    fit = fit_solos([solo(batch, host=1.5, device=1.2) for batch in (1, 2, 64, 128)])
    assert fit.host == pytest.approx(1.5, rel=0.05)
    assert fit.device == pytest.approx(1.2, rel=0.1)


def test_batches_show_the_hosts_own_work_per_item():
    per_item = 200e3  # twice the device's
    times = [
        SoloPoint(
            point.batch,
            point.measured_ns + per_item * point.batch,
            point.launched_ns,
            point.remaining_ns,
            point.around_ns,
        )
        for point in (solo(batch, device=1.1) for batch in (1, 4, 16, 64, 256))
    ]
    fit = fit_solos(times)
    assert fit.item_ns == pytest.approx(per_item, rel=0.15)
    assert fit.device == pytest.approx(1.1, rel=0.25)


def test_one_time_scales_both_alike():
    fit = fit_solos([solo(1, host=1.4, device=1.4)])
    assert (fit.host, fit.device) == pytest.approx((1.4, 1.4))


def test_a_calibrated_tenant_reproduces_its_measured_solo_time():
    spec = WorkloadSpec(name="resnet18-mini", batch=4, dtype="float16")
    controls = GPU.controls({"solo_ms": {"resnet18-mini": 9.0}})
    request, fit = GPU.calibrated(GPU.request(spec), controls)
    from cotenant.prediction.simulated_gpu import solo_of

    assert solo_of(GPU.gpu, request, 1.0).explained_ns(fit.host, fit.device, 0.0) == pytest.approx(9e6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("workload,ms\nno-such-model,4\n", r"line 2: there is no workload 'no-such-model'"),
        ("workload,ms\nresnet18-mini,fast\n", r"line 2: `ms` is 'fast'"),
        ("workload,seconds\nresnet18-mini,4\n", "has a column 'seconds'"),
        ("workload,ms\n", "holds no rows"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path, rows, message):
    file = tmp_path / "solo.csv"
    file.write_text(rows)
    with pytest.raises(DeviceError, match=message):
        solo_times(str(file))


@pytest.mark.parametrize(("ms", "message"), [(1e-7, "faster than the peak rate"), (1e6, "more than 50 times")])
def test_an_impossible_time_or_a_wrong_unit_is_refused_with_its_row(ms, message):
    spec = WorkloadSpec(name="resnet18-mini", batch=4, dtype="float16")
    with pytest.raises(DeviceError, match=f"row 1 of solo_ms: .*{message}"):
        GPU.calibrated(GPU.request(spec), GPU.controls({"solo_ms": {"resnet18-mini": ms}}))
