"""Carries out trials on a group of simulated GPUs: each member does its own part, at the clock its die holds.

Where a die settles is computed for all members at once, from the work on a typical die; then each member is
simulated once, at its own clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.devices.protocol import Device
from cotenant.devices.simulated import SimulatedGpuDevice
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import SeatOutcome
from cotenant.measure.preconditions import DEGREES, PRECONDITION, START_C, WAITED_S
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Samples
from cotenant.measure.simulated.model_error import Modelled
from cotenant.measure.simulated.setup import NS, TrialSetup, play, seat_outcome, set_up, shortages, timing_of, unserved
from cotenant.measure.simulated.simulated_bench import assumed_over_typical, mean_activity, samples_of
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power import (
    LONGHORN,
    Activity,
    Cooling,
    Die,
    Dies,
    Heat,
    Phase,
    settle_fleet,
    simulate_timeline,
    warm,
)
from cotenant.study.expand import stable_number
from cotenant.study.model import Before
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import APART, TrialRecords
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE

# --- temperature of a simulated GPU at the start of a trial: a study's `before` in simulated time


@dataclass(frozen=True, slots=True)
class HeatAtStart:
    """A GPU at the start of a trial."""

    heat: Heat | None
    """None for the temperature the work itself sustains."""
    waited_s: float = 0.0
    temperature_c: float | None = None
    unmet: str | None = None
    """Why it is warmer than required."""


STEADY = HeatAtStart(None)


def start_of(gpu: GpuSpec, die: Die, left: Heat | None, before: Before | None, *, name: str) -> HeatAtStart:
    """Let a GPU cool down after the last trial.

    Args:
        gpu: The model.
        die: The die.
        left: Its heat at the end of the last trial; None if it was idle.
        before: The study's conditions.
        name: For messages.
    """
    if before is None or before.above_idle_c is None:
        return STEADY
    cooling, idle_w = Cooling.of(gpu, die), gpu.power.idle_w
    idle = cooling.settled(idle_w)
    if left is None:
        return HeatAtStart(idle, 0.0, cooling.temperature_c(idle))
    goal_c = cooling.temperature_c(idle) + before.above_idle_c
    waited = _seconds_to(cooling, left, idle_w, goal_c, before.timeout_s)
    heat = cooling.after(left, idle_w, waited)
    reached = cooling.temperature_c(heat)
    unmet = None
    if reached > goal_c + 0.01:
        unmet = f"{name} was at {reached:.1f} C after {before.timeout_s:g} s of cooling, not at {goal_c:.1f} C"
    return HeatAtStart(heat, waited, reached, unmet)


def _seconds_to(cooling: Cooling, heat: Heat, idle_w: float, goal_c: float, most_s: float) -> float:
    """Time to cool down, up to a limit; the temperature only falls."""
    low, high = 0.0, most_s
    if cooling.temperature_c(heat) <= goal_c:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if cooling.temperature_c(cooling.after(heat, idle_w, middle)) <= goal_c else (middle, high)
        )
    return high


MOST_CLOSELY = 16
"""Members of a trial whose sensors are read ten times a second; in a larger fleet once, as its tools would."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """A member in a trial."""

    device: SimulatedGpuDevice
    die: Die
    """The die with the air temperature of this trial."""
    setup: TrialSetup
    start: HeatAtStart
    fates: Mapping[str, str]


class SimulatedFleetBench(Modelled):
    """A group of simulated GPUs prepared for trials."""

    def __init__(self, group: Device, *, run: str, before: Before | None) -> None:
        super().__init__(group.simulation(None), threads=2)
        self._group, self._run, self._before = group, run, before
        self._left: dict[str, Heat] = {}
        self._activities: dict[str, Activity] = {}

    def pause(self, seconds: float) -> None:
        """Let all members cool down."""
        for name, heat in self._left.items():
            gpu = self._member(name)
            self._left[name] = Cooling.of(gpu.gpu, gpu.die).after(heat, gpu.gpu.power.idle_w, seconds)

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out a trial; a mix that doesn't fit is recorded, never raised."""
        started_utc = now_utc()
        stages = [self._stage(trial, name, tenants, rates) for name, tenants in _by_member(self._group, trial)]
        activity = self._activity(trial, stages)
        clocks = self._clocks(stages, activity)
        every_s = 0.0 if len(stages) <= MOST_CLOSELY else 1.0
        parts = list(self._workers.map(_played, stages, clocks, [every_s] * len(stages)))
        if self._before is not None and self._before.above_idle_c is not None:
            for stage in stages:
                limits = stage.setup.controls.limits
                self._left[stage.device.name] = warm(stage.device.gpu, activity, stage.die, limits)
        by_name = {outcome.tenant.name: outcome for outcomes, _ in parts for outcome in outcomes}
        return assemble(
            trial,
            [by_name[tenant.name] for tenant in trial.tenants],
            Circumstances(
                run=self._run,
                session=session,
                device=self._group.name,
                simulated=True,
                cores=1,
                started_utc=started_utc,
                timing=timing_of(trial),
                samples=_together([samples for _, samples in parts], stages),
                sharing_violations=(),
                control_violations=(),
                not_ready=tuple(stage.start.unmet for stage in stages if stage.start.unmet),
            ),
        )

    def _member(self, name: str) -> SimulatedGpuDevice:
        return self._group.simulation(name)

    def _stage(self, trial: Trial, name: str, tenants: tuple[Tenant, ...], rates: Mapping[str, float]) -> _Stage:
        device = self._member(name)
        alone = trial.sharing.mode == APART or len(tenants) == 1
        sharing = Sharing(mode=ALONE) if alone else trial.sharing
        setup = set_up(device, trial.model_copy(update={"tenants": tenants, "sharing": sharing}), rates)
        random = np.random.default_rng(stable_number(trial.seed, "air", trial.number, name))
        # A GPU's air temperature varies from run to run, by a measured amount.
        warmer = float(LONGHORN.run_to_run_c * random.standard_normal())
        die = replace(device.die, inlet_c=device.die.inlet_c + warmer)
        start = start_of(device.gpu, die, self._left.get(name), self._before, name=name)
        return _Stage(device, die, setup, start, shortages(device, setup))

    def _activity(self, trial: Trial, stages: Sequence[_Stage]) -> Activity:
        """Load of the mix on a typical die, computed once for all members and blocks."""
        key = f"{trial.mix.partition(' on ')[0]}/{trial.sharing}/{sorted(trial.settings.items())}/{trial.load}"
        if key not in self._activities:
            runs = [stage for stage in stages if not stage.fates]
            self._activities[key] = (
                mean_activity(play(runs[0].device, runs[0].setup, None)) if runs else Activity(0.0, 0.0)
            )
        return self._activities[key]

    def _clocks(self, stages: Sequence[_Stage], activity: Activity) -> list[float]:
        """The clock of each member: where it settles, or its mean while still warming up."""
        gpu, limits = stages[0].device.gpu, stages[0].setup.controls.limits
        assumed = assumed_over_typical(gpu, activity)
        settled = settle_fleet(gpu, activity, Dies.of([stage.die for stage in stages]), limits).clock_mhz
        held = [
            float(clock) if stage.start.heat is None else _mean_clock(stage, activity)
            for stage, clock in zip(stages, settled, strict=True)
        ]
        return [clock * assumed for clock in held]


def _by_member(group: Device, trial: Trial) -> Iterator[tuple[str, tuple[Tenant, ...]]]:
    members: dict[str, list[Tenant]] = {}
    for tenant in trial.tenants:
        members.setdefault(tenant.member or group.names[0], []).append(tenant)
    return ((name, tuple(tenants)) for name, tenants in members.items())


def _mean_clock(stage: _Stage, activity: Activity) -> float:
    timing, limits = stage.setup.timing, stage.setup.controls.limits
    truth = simulate_timeline(
        stage.device.gpu,
        [Phase(timing.window_end_ns / NS, activity)],
        die=stage.die,
        limits=limits,
        start=stage.start.heat,
        step_s=0.5,
    )
    counted = truth.t_s[1:] > timing.window_start_ns / NS
    return float(truth.clock_mhz[counted].mean())


def _played(stage: _Stage, clock_mhz: float, every_s: float) -> tuple[list[SeatOutcome], Samples]:
    if stage.fates:
        return [unserved(seat, stage.fates) for seat in stage.setup.seats], Samples({}, ())
    outcome = play(stage.device, stage.setup, clock_mhz)
    outcomes = [
        seat_outcome(stage.device, seat, requests, stage.setup)
        for seat, requests in zip(stage.setup.seats, outcome.requests, strict=True)
    ]
    limits = stage.setup.controls.limits
    samples = samples_of(stage.device, outcome, limits, die=stage.die, start=stage.start.heat)
    if every_s and samples.columns:
        kept = samples.columns["t_ns"] % round(every_s * NS) == 0
        samples = Samples({name: column[kept] for name, column in samples.columns.items()}, samples.lost)
    return outcomes, samples


def _together(parts: Sequence[Samples], stages: Sequence[_Stage]) -> Samples:
    columns = [part.columns for part in parts if part.columns]
    starts = [stage for stage in stages if stage.start != STEADY and stage.start.temperature_c is not None]
    if starts:
        columns.append(
            {
                "t_ns": np.zeros(2 * len(starts), np.int64),
                "device": np.repeat([stage.device.name for stage in starts], 2),
                "sensor": np.tile([START_C, WAITED_S], len(starts)),
                "value": np.array(
                    [value for s in starts for value in (s.start.temperature_c, s.start.waited_s)], float
                ),
                "unit": np.tile([DEGREES, "s"], len(starts)),
                "source": np.full(2 * len(starts), PRECONDITION),
            }
        )
    if not columns:
        return Samples({}, ())
    return Samples({name: np.concatenate([member[name] for member in columns]) for name in columns[0]}, ())
