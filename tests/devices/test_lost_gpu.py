"""The study `variability` on four GPUs of the compiled stand-in for the driver: clocks locked and restored, one lost.

torch computes on the CPU; sensors, controls and identities are the driver's.
"""

import pytest

from cotenant.api.records import sql
from cotenant.api.run import run
from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.measure.events import TrialDone

SMALL = (
    "tenants={sgemm: {workload: spin, params: {work: 2000}}}",
    "mixes=[solo]",
    "settings=[{}, {clock_mhz: 1200}]",
    "spread=each",
    "before=null",
    "window=300ms",
    "lead=30ms",
    "blocks=2",
)
LOST = 2


@pytest.fixture
def four_gpus(mock_nvml, monkeypatch):
    """Four busy V100s that differ."""
    mock_nvml.install("v100", "v100", "v100", "v100")
    for index, dynamic in enumerate((0.96, 1.0, 1.03, 1.06)):
        mock_nvml.change(index, die_dynamic=dynamic, load=1)
    monkeypatch.setenv("COTENANT_TORCH_DEVICE", "cpu")
    for key, value in mock_nvml.env().items():
        monkeypatch.setenv(key, value)
    return mock_nvml


def uuid(index: int) -> str:
    return nvml.find(index).uuid


@pytest.mark.slow
def test_variability_locks_clocks_restores_them_and_continues_without_a_lost_gpu(four_gpus, tmp_path):
    uuids = [uuid(index) for index in range(4)]
    done = []

    def listener(event):
        if isinstance(event, TrialDone):
            done.append(event)
            if len(done) == 8:  # the first block is complete: every GPU has served
                four_gpus.change(LOST, lost=1)

    folder = run("variability", devices="cuda:all", overrides=SMALL, out=tmp_path, listener=listener).folder

    def asked(question: str) -> list[tuple]:
        return [tuple(row) for row in sql(question, [folder]).rows]

    both = "from trials join tenants using (run, trial) where block >= 0"
    assert asked("select distinct device from trials where block >= 0") == [("cuda:0-3[torch on cpu]",)]
    assert {row[0] for row in asked(f"select distinct member {both}")} == set(uuids)
    invalid = asked(f"select member, block, failed_checks, reasons {both} and verdict = 'invalid'")
    assert [(row[0], row[1]) for row in invalid] == [(uuids[LOST], 1)] * 2
    assert all("device_present" in row[2] for row in invalid)
    assert any("is lost" in reason for row in invalid for reason in row[3])
    assert asked(f"select count(*) {both} and verdict = 'invalid' and member <> '{uuids[LOST]}'") == [(0,)]

    power = dict(
        asked(
            "select samples.device, avg(value) from samples join trials using (run, trial) where sensor = 'power_w' "
            "and settings like '%1200%' and block = 0 "
            "and t_ns between window_start_ns and window_start_ns + window_s * 1e9 group by all"
        )
    )
    assert sorted(power, key=lambda key: power[key]) == uuids  # locked: the worse the die, the more it draws
    clocks = asked(
        "select distinct value from samples join trials using (run, trial) where sensor = 'sm_clock_mhz' and block = 0 "
        "and settings like '%1200%' and t_ns > window_start_ns"
    )
    assert clocks == [(1200.0,)]
    for index in (0, 1, 3):
        assert not four_gpus_locked(index)


def four_gpus_locked(index: int) -> bool:
    """A busy GPU that is not locked runs above 1200 MHz."""
    from cotenant.devices.nvidia.library import call

    gpu = nvml.find(index)
    return int(call("nvmlDeviceGetClockInfo", nvml.handle(gpu), 1)) == 1200


def test_a_control_that_never_worked_ends_the_run_with_one_sentence(four_gpus, tmp_path):
    from cotenant.errors import DeviceError

    four_gpus.set_system(root=0)
    overrides = [*SMALL[:2], "settings=[{clock_mhz: 1200}]", *SMALL[3:]]
    with pytest.raises(DeviceError, match="root"):
        run("variability", devices="cuda:0,1", overrides=overrides, out=tmp_path)


def test_a_foreign_process_on_a_gpu_is_named(four_gpus):
    import os

    four_gpus.change(1, processes=[(os.getpid(), 1 << 30)])
    group = find_device("cuda:all")
    [sentence] = group.foreign_processes(set())
    assert sentence.startswith(f"process {os.getpid()} (")
    assert sentence.endswith(") is also on cuda:1[torch on cpu]")
    assert group.foreign_processes({os.getpid()}) == ()
