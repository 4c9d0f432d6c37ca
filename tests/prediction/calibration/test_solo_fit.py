"""Measured solo times calibrate host and device; what they can't determine stays as simulated."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.devices.simulated.solo_times import parse_solo_times
from cotenant.errors import DeviceError
from cotenant.prediction.calibration.solo import SoloPoint, fit_solos
from cotenant.prediction.contention.trace import Pace
from cotenant.workloads.protocol import WorkloadSpec

GPU = open_simulated("sim:a100-sxm4-40gb")


def solo(batch, *, host=1.0, device=1.0, kernels=50):
    pace = Pace.of(np.full(kernels, 30e3), np.full(kernels, 2e3 * batch), np.zeros(kernels))
    measured = SoloPoint(batch, 1.0, pace, 50e3).explained_ns(host, device, 0.0)
    return SoloPoint(batch, measured, pace, 50e3)


def test_three_batches_separate_a_slow_host_from_a_slow_device():
    fit = fit_solos([solo(batch, host=1.5, device=1.2) for batch in (1, 2, 64, 128)])
    assert fit.host == pytest.approx(1.5, rel=0.05)
    assert fit.device == pytest.approx(1.2, rel=0.1)


def test_batches_show_the_hosts_own_work_per_item():
    per_item = 200e3  # twice the device's
    times = [
        SoloPoint(point.batch, point.measured_ns + per_item * point.batch, point.pace, point.around_ns)
        for point in (solo(batch, device=1.1) for batch in (1, 4, 16, 64, 256))
    ]
    fit = fit_solos(times)
    assert fit.item_ns == pytest.approx(per_item, rel=0.15)
    assert fit.device == pytest.approx(1.1, rel=0.25)


def test_one_time_scales_both_alike():
    fit = fit_solos([solo(1, host=1.4, device=1.4)])
    assert (fit.host, fit.device) == pytest.approx((1.4, 1.4))


def test_two_batches_tell_a_slow_host_from_a_slow_device():
    fit = fit_solos([solo(batch, host=1.6, device=1.1) for batch in (1, 64)])
    assert fit.host == pytest.approx(1.6, rel=0.05)
    assert fit.device == pytest.approx(1.1, rel=0.1)
    assert fit.item_ns == pytest.approx(0.0, abs=1.0)


def test_a_utilisation_shows_a_job_that_waits_for_its_data():
    alone = solo(64)
    busy = alone.pace.device_ns
    waits = replace(alone, measured_ns=3 * busy, utilisation=1 / 3)
    fit = fit_solos([waits])
    assert fit.device == pytest.approx(1.0, rel=0.05)
    assert waits.explained_ns(fit.host, fit.device, fit.item_ns) == pytest.approx(3 * busy, rel=0.05)
    assert fit.item_ns * 64 > busy  # loading takes most of the rest, not launches


def test_the_host_begins_anew_where_it_waits_for_a_kernel():
    launch, duration = np.full(4, 10.0), np.array([5.0, 30.0, 5.0, 5.0])
    assert Pace.of(launch, duration, np.zeros(4)).time_ns(1.0, 1.0) == pytest.approx(60.0)
    waiting = Pace.of(launch, duration, np.array([0.0, 1.0, 0.0, 0.0]))
    assert waiting.time_ns(1.0, 1.0) == pytest.approx(20 + 30 + 20 + 5)
    assert waiting.time_ns(1.0, np.array([1.0, 2.0])) == pytest.approx([75.0, 20 + 60 + 20 + 10])
    assert waiting.device_ns == pytest.approx(45.0)


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
        parse_solo_times(str(file))


@pytest.mark.parametrize(("ms", "message"), [(1e-7, "faster than the peak rate"), (1e6, "more than 50 times")])
def test_an_impossible_time_or_a_wrong_unit_is_refused_with_its_row(ms, message):
    spec = WorkloadSpec(name="resnet18-mini", batch=4, dtype="float16")
    with pytest.raises(DeviceError, match=f"row 1 of solo_ms: .*{message}"):
        GPU.calibrated(GPU.request(spec), GPU.controls({"solo_ms": {"resnet18-mini": ms}}))
