"""Tries timing, sharing, sensors and controls of a device, for hardware the authors have not tested."""

import itertools
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cotenant import __version__
from cotenant.analyse.energy import faults
from cotenant.devices.nvidia import nvml
from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.measure.bench import DeviceBench, bench_for
from cotenant.measure.locking import device_lock
from cotenant.measure.tenants.own_use import OWN_CPU, RUNNER_CPU
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import TrialRecords
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.catalogue import require_packages
from cotenant.workloads.protocol import WorkloadSpec

WINDOW_S = 1.0
WATCHED_S = 2.5
"""Length of the trial in which sensors are watched: being constant for less proves nothing."""
LEAD_S = 0.3
WARM_S = (0.1, 2.0)
WORKLOAD = "sgemm-mini"
SHARES = {"mps": (60.0, 40.0), "mps-static": (50.0, 50.0), "green": (50.0, 50.0)}
"""Sharing modes also tried with shares."""
PRIORITIES = ("mps", "streams")
"""Sharing modes also tried with a high-priority tenant."""
NAMED_ONLY = ("exclusive",)
"""Not part of `sharing: all`, but short and harmless enough to try here."""


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """One check and its result."""

    name: str
    state: Literal["ok", "failed", "skipped"]
    text: str
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The results of a self-test, for a person or a bug report."""

    device: str
    facts: dict[str, Any]
    checks: tuple[SelfCheck, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True if nothing that could be tried failed."""
        return all(check.state != "failed" for check in self.checks)


def try_out(device: Device) -> SelfTest:
    """Try everything that can be tried here.

    Raises:
        DeviceBusy: It is being measured.
        MissingExtra: torch, which the test computes with, isn't installed.
    """
    if not device.simulated:
        require_packages(WORKLOAD)
    begin = time.monotonic()
    with device_lock(device.lock_keys(), run="selftest"):
        bench = bench_for(device, run="selftest", warm_s=WARM_S)
        try:
            checks = tuple(_checks(device, bench))
        finally:
            bench.kill()
    return SelfTest(device.name, _facts(device), checks, time.monotonic() - begin)


def _checks(device: Device, bench: DeviceBench) -> Iterator[SelfCheck]:
    alone = bench.carry_out(_trial(0, "alone", (), 1, window_s=WATCHED_S), session=0, rates={})
    yield _timing(alone)
    yield _memory(alone)
    yield from _sensors(alone)
    yield from _sharing(device, bench)
    yield from _controls(device, bench)


def _timing(records: TrialRecords) -> SelfCheck:
    """Compare two clocks: device time can't exceed the duration of the request."""
    why = [reason for reason in records.trial["reasons"] if "did not serve" in reason or "could not be built" in reason]
    if not records.requests or why:
        return SelfCheck("timing", "failed", "; ".join(why) or "no request was served")
    ok = records.requests["ok"] & (records.requests["device_ns"] >= 0)
    wall = (records.requests["done_ns"] - records.requests["started_ns"])[ok]
    device = records.requests["device_ns"][ok]
    if not wall.size:
        return SelfCheck("timing", "failed", f"no request succeeded: {records.tenants[0].get('error')}")
    share = float(np.median(device / np.maximum(wall, 1)))
    measured = {
        "requests": int(wall.size),
        "wall_ms_p50": round(float(np.median(wall)) / 1e6, 4),
        "device_ms_p50": round(float(np.median(device)) / 1e6, 4),
        "clock": _observed(records).get("device_clock"),
    }
    text = (
        f"{wall.size} requests of {measured['wall_ms_p50']:g} ms, {measured['device_ms_p50']:g} ms of it on the device "
        f"(by {measured['clock']})"
    )
    several = _observed(records).get("threads") or 1  # CPU time adds up over threads
    if share > 1.05 * several or share < 0.05:
        return SelfCheck("timing", "failed", f"{text}: the clocks don't agree", measured)
    return SelfCheck("timing", "ok", text, measured)


def _memory(records: TrialRecords) -> SelfCheck:
    peak = records.tenants[0].get("peak_memory_bytes")
    if not peak:
        return SelfCheck("memory", "failed", "the tenant's peak memory could not be read")
    return SelfCheck("memory", "ok", f"peak memory of the tenant {peak / 2**20:.0f} MiB", {"peak_bytes": int(peak)})


def _sensors(records: TrialRecords) -> Iterator[SelfCheck]:
    """Check that each sensor gives values, and that those that should change do."""
    if not records.samples:
        yield SelfCheck("sensors", "skipped", "this device has none")
        return
    names, series = records.samples["sensor"], {}
    for name in dict.fromkeys(map(str, names)):
        mine = names == name
        t, values = records.samples["t_ns"][mine] / 1e9, records.samples["value"][mine]
        series[name] = (t, values)
        if name in {OWN_CPU, RUNNER_CPU}:
            continue
        changes = int(np.count_nonzero(np.diff(values)))
        spread = f"{values.min():.4g} to {values.max():.4g} {records.samples['unit'][mine][0]}"
        text = f"{values.size} readings, {changes} changes, {spread}, from {records.samples['source'][mine][0]}"
        span = {"low": float(values.min()), "high": float(values.max())}
        yield SelfCheck(f"sensor {name}", "ok", text, {"readings": int(values.size), "changes": changes, **span})
    lies = faults(series)
    if lies:
        yield SelfCheck("sensors agree", "failed", "; ".join(lies))
    elif "power_w" in series:
        yield SelfCheck("sensors agree", "ok", "power, energy, clock and temperature don't contradict each other")


def _sharing(device: Device, bench: DeviceBench) -> Iterator[SelfCheck]:
    """Run two tenants under each sharing mode: it passes only if it is verified."""
    number = itertools.count(1)
    for mode in device.sharings():
        if not mode.available and not (mode.mode in NAMED_ONLY and _can_be_had(device, mode.mode)):
            yield SelfCheck(f"sharing {mode.mode}", "skipped", f"it needs {mode.missing}")
            continue
        trials = [_trial(next(number), mode.mode, (), 2)]
        if mode.mode in SHARES:
            trials.append(_trial(next(number), mode.mode, SHARES[mode.mode], 2))
        if mode.mode in PRIORITIES and device.reports_priorities:
            trials.append(_trial(next(number), mode.mode, (), 2, first=1))
        for trial in trials:
            yield _proven(trial, bench.carry_out(trial, session=0, rates={}))


def _can_be_had(device: Device, mode: str) -> bool:
    try:
        device.arrange(Sharing(mode=mode), [_tenant("a")])
    except SharingUnavailable:
        return False
    return True


def _proven(trial: Trial, records: TrialRecords) -> SelfCheck:
    bad = {"sharing_verified", "tenants_alive", "requests_succeed"} & set(records.trial["failed_checks"])
    served = {str(row["tenant"]): _served(records, str(row["tenant"])) for row in records.tenants}
    name = f"sharing {trial.sharing}{', a first' if trial.tenants[0].priority else ''}"
    if bad:
        return SelfCheck(name, "failed", "; ".join(records.trial["reasons"]), {"served": served})
    counts = ", ".join(f"{tenant} {count}" for tenant, count in served.items())
    return SelfCheck(name, "ok", f"verified; requests served: {counts}", {"served": served})


def _limits(device: Device) -> Any:
    """The power limits according to the driver; None for a CPU."""
    uuid = device.describe().get("uuid")
    return nvml.find(uuid).power_limits if isinstance(uuid, str) and uuid.startswith("GPU-") else None


def _served(records: TrialRecords, tenant: str) -> int:
    if not records.requests:
        return 0
    return int(((records.requests["tenant"] == tenant) & records.requests["in_window"]).sum())


def _controls(device: Device, bench: DeviceBench) -> Iterator[SelfCheck]:
    """Set, watch under load, restore."""
    wanted: list[dict[str, Any]] = [{"sm_clock_mhz": "70%"}, {"power_limit_w": "80%"}]
    if device.kind == "cpu":
        wanted = [{"governor": "performance"}]
    before = _limits(device)
    for number, settings in enumerate(wanted):
        name = f"control {next(iter(settings))}"
        try:
            settings = dict(device.absolute(settings))  # noqa: PLW2901 - the same, in numbers
            trial = _trial(1000 + number, "alone", (), 1, settings=settings)
            records = bench.carry_out(trial, session=0, rates={})
        except DeviceError as error:
            yield SelfCheck(name, "skipped", f"{error.message}")
            continue
        broken = [] if "controls_applied" not in records.trial["failed_checks"] else list(records.trial["reasons"])
        if (now := _limits(device)) != before:
            broken.append(f"the power limit was {before} and is {now} afterwards")
        value = next(iter(settings.values()))
        if broken:
            yield SelfCheck(name, "failed", f"{value}: {'; '.join(broken)}", {"set": value})
        else:
            yield SelfCheck(name, "ok", f"set to {value}, held under load, restored", {"set": value})


def _trial(
    number: int,
    mode: str,
    shares: Sequence[float],
    tenants: int,
    *,
    settings: Mapping[str, Any] | None = None,
    window_s: float = WINDOW_S,
    first: int = 0,
) -> Trial:
    return Trial(
        number=number,
        block=0,
        order=0,
        mix="selftest",
        tenants=(_tenant("a", first), _tenant("b"))[:tenants],
        sharing=Sharing(mode=mode, shares=tuple(shares)),
        settings=settings or {},
        load="closed(1)",
        window_s=window_s,
        lead_s=LEAD_S,
        seed=1,
    )


def _tenant(name: str, priority: int = 0) -> Tenant:
    return Tenant(
        name=name,
        of=name,
        workload=WorkloadSpec(name=WORKLOAD),
        load=Load(kind="closed"),
        threads=1,
        priority=priority,
    )


def _observed(records: TrialRecords) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(records.tenants[0].get("observed") or "{}")
    return found


def _facts(device: Device) -> dict[str, Any]:
    """Facts about the machine for a bug report."""
    described = device.describe()
    keys = ("model", "driver", "cuda", "architecture", "torch", "torch_side", "uuid", "sources")
    return {
        "cotenant": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        **{key: described[key] for key in keys if described.get(key) is not None},
    }
