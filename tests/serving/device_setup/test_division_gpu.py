"""A divided GPU under the mock driver: what `run` sets up is set up, verified and removed; each tenant has its part."""

import asyncio
import os
import re
from functools import partial
from pathlib import Path

import pynvml
import pytest

from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.sharing import green
from cotenant.devices.nvidia.sharing.daemon import CONTROL
from cotenant.devices.nvidia.tools import TorchBuild
from cotenant.devices.protocol import SeatReport
from cotenant.errors import DeviceError, ServingError, SharingUnavailable
from cotenant.serving.deployment import orders
from cotenant.serving.device_setup import DividedDevice, Parts, tenants_of
from cotenant.serving.http.operations import state_of
from cotenant.serving.workers.supervisor import granted, in_words
from tests.serving.device_setup.division import ask, file, served

PERCENT, PIPE, VISIBLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES"


async def environments(service, *names):
    """By tenant, the environment that its worker was started with; every tenant answers."""
    await ask(service, *service.tenants)
    found = {}
    for one in service.workers():
        lines = Path(f"/proc/{one['pid']}/environ").read_text().split("\0")
        env = dict(line.split("=", 1) for line in lines if "=" in line)
        found |= {tenant: {name: env.get(name) for name in names} for tenant in one["tenants"]}
    return found


def test_under_mps_each_tenant_is_a_client_of_our_daemon_with_its_percentage(gpus, tools, hollow_workers):
    async def scenario(service):
        return await environments(service, PERCENT, PIPE), state_of(service)

    env, said = served(file({"mps": [60, 40]}), scenario)
    assert {name: one[PERCENT] for name, one in env.items()} == {"a": "60", "b": "40"}
    (pipe,) = {one[PIPE] for one in env.values()}
    assert re.search("cotenant-mps-", pipe)
    assert not Path(pipe).exists(), "the daemon ends after the workers"
    assert said["sharing"] == "mps[60, 40]"
    assert [one["granted"]["mps_percent"] for one in said["workers"]] == [60, 40]
    assert [one["part"] for one in said["tenants"]] == ["60 % of the SMs", "40 % of the SMs"]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("cannot-start", "did not start"),
        ("unattached", r"isn't shared by `mps\[60, 40\]`: a \(process \d+\) is not attached to the MPS daemon"),
        ("limit=50.0", "a should have 60 % of the SMs, but the MPS server gives 50 %"),
    ],
)
def test_a_device_shared_otherwise_than_planned_is_not_served_on(gpus, tools, hollow_workers, failure, sentence):
    tools.setenv("FAKE_MPS", failure)
    with pytest.raises((ServingError, SharingUnavailable), match=sentence):
        served(file({"mps": [60, 40]}))
    assert not list(Path("/proc").glob(f"[0-9]*/cwd/{CONTROL}.pid"))


def test_under_mig_each_tenant_has_its_instance_which_is_removed_afterwards(gpus, tools, hollow_workers):
    async def scenario(service):
        have = {one.uuid: one.profile for one in nvml.find("1").instances}
        env = await environments(service, VISIBLE)
        return {name: have[one[VISIBLE]] for name, one in env.items()}, service.workers()

    instances, workers = served(file({"mig": ["3g.20gb", "4g.20gb"]}), scenario)
    assert instances == {"a": "3g.20gb", "b": "4g.20gb"}
    assert all(one["granted"]["mig_instance"].startswith("MIG-") for one in workers)
    nvml.forget()
    assert (nvml.find("1").mig_mode, nvml.find("1").instances) == (False, ())


@pytest.mark.parametrize(
    ("device", "sharing", "sentence"),
    [
        ("cuda:0", {"mig": ["3g.20gb", "3g.20gb"]}, "`mig` needs MIG: .*V100.* can't be cut into instances"),
        ("cuda:1", {"mig": ["3g.20gb", "7g.40gb"]}, "can't hold the MIG instances 3g.20gb, 7g.40gb at once"),
        ("cuda:1", {"green": [60, 40]}, "`green` needs torch on the GPU"),
        ("cuda:1", "pinned", "`pinned` is not available on a GPU"),
    ],
)
def test_what_a_gpu_cant_do_is_refused_before_a_worker_starts(gpus, tools, device, sharing, sentence):
    with pytest.raises(SharingUnavailable, match=sentence):
        served(file(sharing, device=device))


def test_without_permission_mig_is_refused_and_nothing_changes(gpus, tools, hollow_workers):
    tools.setenv("FAKE_SMI", "no-permission")
    with pytest.raises(SharingUnavailable, match="Insufficient Permissions"):
        served(file({"mig": ["3g.20gb", "3g.20gb"]}))
    assert nvml.find("1").mig_mode is False


def test_a_new_file_may_change_percentages_but_not_turn_mig_on(gpus, tools, hollow_workers):
    files = [file({"mps": [50, 50]}), file({"mig": ["3g.20gb", "3g.20gb"]})]

    async def scenario(service):
        before = await environments(service, PERCENT, PIPE)
        await service.reload()
        after = await environments(service, PERCENT, PIPE)
        with pytest.raises(ServingError, match=r"can't be shared by `mig\[3g.20gb, 3g.20gb\]` from now on"):
            await service.reload()
        await ask(service, "a", "b")
        return before, after

    before, after = served(file({"mps": [60, 40]}), scenario, again=partial(files.pop, 0))
    assert [one[PERCENT] for one in after.values()] == ["50", "50"]
    assert before["a"][PIPE] == after["a"][PIPE], "the daemon stays"


def test_streams_are_threads_of_one_process_that_is_restarted_as_a_whole(gpus, tools, hollow_workers):
    async def scenario(service):
        await ask(service, "a", "b")
        first = [one["pid"] for one in service.workers()]
        os.kill(first[0], 9)
        while any(service.ready(name) for name in "ab"):
            await asyncio.sleep(0.01)
        while not service.all_ready():
            await asyncio.sleep(0.05)
        await ask(service, "a", "b")
        return first, [one["pid"] for one in service.workers()], [one["restarts"] for one in service.workers()]

    first, second, restarts = served(file("streams"), scenario)
    assert first[0] == first[1] != second[0] == second[1]
    assert restarts == [1, 1]


@pytest.mark.slow
def test_threads_of_one_process_answer_as_processes_do(gpus, tools):
    async def scenario(service):
        return await ask(service, "a", "b", "a", "b")

    answers = served(file("streams"), scenario)
    assert len({bytes(one.tensors[0].data) for one in answers}) == 1, "the same model, the same input"


@pytest.fixture
def with_green_contexts(gpus, tools, monkeypatch):
    monkeypatch.delenv("COTENANT_TORCH_DEVICE")
    monkeypatch.setattr(green, "torch_build", lambda: TorchBuild("2.14.0", "12.9", None))
    monkeypatch.setattr(green, "bindings_here", lambda: True)
    gpus.set_system(driver="560.35")


def test_green_contexts_are_cut_from_one_split_in_one_process(with_green_contexts):
    wanted = file({"green": [60, 40]})
    division = DividedDevice(
        "cuda:1", wanted.sharing, find_device("cuda:1").arrange(wanted.sharing, tenants_of(wanted))
    )
    seats = [order.seat for order in Parts(division).seated(orders(wanted, "cuda:1"))]
    assert [(one["green_sms"], one["green_part"]) for one in seats] == [([64, 42], 0), ([64, 42], 1)]
    assert len(division.arrangement.hosts) == 1
    seen = {"uuid": nvml.find("1").uuid, "sms": 108, "green_sms": 108}
    reports = [SeatReport(name, 1, {**seen, "pid": 1, "tid": number}) for number, name in enumerate("ab")]
    assert division.problems(reports)[0] == "a is in a green context of 108 SMs instead of 64"


@pytest.mark.parametrize(
    ("observed", "part"),
    [
        ({"sms": 108, "green_sms": 64}, "64 SMs"),
        ({"sms": 66, "environment": {PERCENT: "60", VISIBLE: "GPU-1"}}, "66 SMs"),
        ({"sms": 42, "environment": {VISIBLE: "MIG-1"}}, "42 SMs"),
        ({"environment": {VISIBLE: "MIG-1"}}, "MIG-1"),
        ({"cores": [0, 1]}, "cores 0, 1"),
        ({}, "its part of the device"),
    ],
)
def test_a_part_is_named_by_what_was_read_back(observed, part):
    assert in_words(granted(observed)) == part


def clock_and_limit():
    """What the driver says of the A100."""
    device = nvml.handle(nvml.find(1))
    return pynvml.nvmlDeviceGetClockInfo(device, 1), pynvml.nvmlDeviceGetPowerManagementLimit(device) / 1e3


def test_the_plans_clock_and_power_limit_are_held_while_serving_and_put_back(gpus, tools, hollow_workers):
    before = clock_and_limit()

    async def scenario(service):
        await ask(service, "a", "b")
        return clock_and_limit(), state_of(service)["settings"]

    settings = {"clock_mhz": 1110.0, "power_w": 250.0}
    during, said = served(file({"mps": [60, 40]}, settings=settings), scenario)
    assert during == (1110, 250.0)
    assert said == settings
    assert clock_and_limit() == before


def test_a_reload_with_another_clock_holds_that_one_and_a_rejected_file_changes_nothing(gpus, tools, hollow_workers):
    first, second = (file({"mps": [60, 40]}, settings={"clock_mhz": clock}) for clock in (1110.0, 1200.0))
    wrong = file({"mps": [60, 40]}, settings={"clock_mhz": 9000.0})
    files = iter((second, wrong))

    async def scenario(service):
        await service.reload()
        reloaded = clock_and_limit()[0]
        with pytest.raises(DeviceError):
            await service.reload()
        return reloaded, clock_and_limit()[0]

    assert served(first, scenario, again=lambda: next(files)) == (1200, 1200)


def test_settings_that_do_not_take_effect_are_refused(gpus, tools, hollow_workers, monkeypatch):
    from contextlib import contextmanager

    from cotenant.devices.nvidia.cuda_device import CudaDevice

    @contextmanager
    def apply(device, settings):
        yield ["the clock is 900 MHz instead of 1110 MHz"]

    monkeypatch.setattr(CudaDevice, "apply", apply)
    with pytest.raises(ServingError, match="doesn't keep the plan's settings: the clock is 900 MHz instead of 1110"):
        served(file({"mps": [60, 40]}, settings={"clock_mhz": 1110.0}))
