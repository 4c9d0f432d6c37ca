"""Turns the outcomes of a trial's tenants into its records and verdict. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cotenant.analyse.energy import faults
from cotenant.measure.checks import CheckedTrial, failures, verdict
from cotenant.measure.gather import (
    SeatOutcome,
    Timing,
    facts_of,
    in_window,
    points_to_judge,
    request_table,
    stage_table,
    tenant_row,
    unequal_copies,
)
from cotenant.measure.sampler import Samples
from cotenant.measure.tenants.own_use import OWN_CPU, growths, share_of_window
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import CANARY, JUDGED_ALONE_S, Columns, TrialRecords

CPU_BUSY = "cpu_busy_s"
CPU_STEAL = "cpu_steal_s"
PACKAGE_BUSY, PACKAGE_CORES = "package_busy_s", "package_cores"
CLOCKS = ("frequency_mhz", "sm_clock_mhz")
"""Names on a CPU and on a GPU."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts of a trial that don't belong to a single tenant."""

    run: str
    session: int
    device: str
    simulated: bool
    cores: int
    started_utc: str
    timing: Timing
    samples: Samples
    sharing_violations: tuple[str, ...]
    control_violations: tuple[str, ...]
    identities: Mapping[str, str] = field(default_factory=dict)
    """Identities of a group's members, by name."""
    devices_lost: tuple[str, ...] = ()
    """One sentence for each device lost before the end."""
    not_ready: tuple[str, ...] = ()
    """One sentence for each device that was warmer than requested."""
    foreign_jobs: tuple[str, ...] = ()
    """One sentence for each device used by other processes."""
    stretch: tuple[Samples, Timing] | None = None
    """Samples and timing of all trials carried out together: shares over less than a second are mostly clock ticks."""

    @property
    def counted(self) -> tuple[Samples, Timing]:
        """Samples and timing to compute shares of CPU time from."""
        return self.stretch or (self.samples, self.timing)

    def share(self, sensor: str) -> float | None:
        """Growth of a counter of CPU seconds as a share of the cores' time."""
        samples, timing = self.counted
        return share_of_window(samples, sensor, timing, self.cores)


def assemble(trial: Trial, outcomes: Sequence[SeatOutcome], around: Circumstances) -> TrialRecords:
    """Assemble and judge the trial's records."""
    timing = around.timing
    stops = [stop for outcome in outcomes if (stop := outcome.stopped_ns) is not None]
    complete_until = min(stops) if stops else None
    counted = [in_window(outcome, timing, complete_until) for outcome in outcomes]
    short, foreign_share = trial.window_s < JUDGED_ALONE_S, _foreign_share(around)
    facts = [
        facts_of(outcome, mask, points=points, short=short)
        for outcome, mask, points in zip(outcomes, counted, points_to_judge(outcomes, counted), strict=True)
    ]
    failed = failures(
        CheckedTrial(
            tenants=tuple(facts),
            sharing_violations=around.sharing_violations,
            unequal_copies=unequal_copies(outcomes),
            control_violations=around.control_violations,
            foreign_share=foreign_share,
            beside_share=_beside_share(around),
            steal_share=around.share(CPU_STEAL),
            clock_spread=_clock_spread(around),
            sensors_lost=(*around.samples.lost, *_lying(around)),
            devices_lost=around.devices_lost,
            not_ready=around.not_ready,
            foreign_jobs=around.foreign_jobs,
            short=short,
            simulated=around.simulated,
        )
    )
    return TrialRecords(
        trial={
            "run": around.run,
            "trial": trial.number,
            "block": trial.block,
            "order": trial.order,
            "session": around.session,
            "mix": trial.mix,
            "solo": trial.solo,
            "device": around.device,
            "simulated": around.simulated,
            "sharing": str(trial.sharing),
            "settings": json.dumps(dict(trial.settings), sort_keys=True, default=str),
            "load": trial.load,
            "seed": trial.seed,
            "started_utc": around.started_utc,
            "start_ns": timing.start_ns,
            "window_start_ns": timing.window_start_ns,
            "window_s": trial.window_s,
            "foreign_share": foreign_share,
            "verdict": verdict(failed),
            "failed_checks": list(dict.fromkeys(failure.check.name for failure in failed)),
            "reasons": [failure.reason for failure in failed],
        },
        tenants=tuple(
            {**tenant_row(outcome, fact), **_member(outcome, around)}
            for outcome, fact in zip(outcomes, facts, strict=True)
        ),
        requests=request_table(outcomes, counted),
        stages=stage_table(outcomes),
        samples=_with_canaries(outcomes, around),
    )


def _member(outcome: SeatOutcome, around: Circumstances) -> dict[str, Any]:
    name = outcome.tenant.member
    return {} if name is None else {"member": around.identities.get(name, name)}


def _with_canaries(outcomes: Sequence[SeatOutcome], around: Circumstances) -> Columns:
    """Sensor readings, and the time of the canary loop each tenant ran between its requests."""
    read = [
        (outcome.tenant.name, outcome.result.canary_ns / 1e3)
        for outcome in outcomes
        if outcome.result is not None and outcome.result.canary_ns is not None
    ]
    if not read:
        return around.samples.columns
    mine: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
        "t_ns": np.full(len(read), around.timing.window_end_ns, np.int64),
        "device": np.full(len(read), around.device),
        "sensor": np.full(len(read), CANARY),
        "value": np.array([value for _, value in read]),
        "unit": np.full(len(read), "us"),
        "source": np.array([name for name, _ in read]),
    }
    columns = around.samples.columns
    return mine if not columns else {name: np.concatenate([columns[name], mine[name]]) for name in mine}


def _foreign_share(around: Circumstances) -> float | None:
    busy, own = around.share(CPU_BUSY), around.share(OWN_CPU)
    # Counters move in clock ticks: their difference may slightly exceed the possible range.
    return None if busy is None or own is None else min(max(busy - own, 0.0), 1.0)


def _beside_share(around: Circumstances) -> float | None:
    """Share that others used of the sockets the device's cores are on: load there slows the device too."""
    samples, timing = around.counted
    counts = [float(values[-1]) for _, values in samples.by_device(PACKAGE_CORES).values() if values.size]
    own, busy = growths(samples, OWN_CPU, timing), growths(samples, PACKAGE_BUSY, timing)
    if not counts or not own or not busy:
        return None
    # Members of a group on the same socket each see all of it: count it once.
    available_s = max(counts) * (timing.window_end_ns - timing.window_start_ns) / 1e9
    return min(max((max(busy) - sum(own)) / available_s, 0.0), 1.0)


def _clock_spread(around: Circumstances) -> float | None:
    spreads = []
    for t_ns, values in (series for name in CLOCKS for series in around.samples.by_device(name).values()):
        clock = values[(t_ns >= around.timing.window_start_ns) & (t_ns <= around.timing.window_end_ns)]
        if clock.size >= 2:
            spreads.append(float((clock.max() - clock.min()) / np.median(clock)))
    return max(spreads, default=None)


def _lying(around: Circumstances) -> tuple[str, ...]:
    """GPU sensors with implausible values. Simulated ones may legitimately stay at a limit."""
    if around.simulated:
        return ()
    readings: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for sensor in ("power_w", "energy_j", "temperature_c", "sm_clock_mhz"):
        for device, (t_ns, values) in around.samples.by_device(sensor).items():
            readings.setdefault(device, {})[sensor] = (t_ns / 1e9, values)
    return tuple(sentence for each in readings.values() for sentence in faults(each))
