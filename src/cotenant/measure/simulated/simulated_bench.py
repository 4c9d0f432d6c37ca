"""Carries out trials on a simulated GPU: the same records as on a real device, computed instead of measured."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import pairwise

import numpy as np

from cotenant.devices.simulated import ACTIVITIES, SimulatedGpuDevice
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Samples
from cotenant.measure.simulated.model_error import Modelled
from cotenant.measure.simulated.setup import TrialSetup, play, seat_outcome, set_up, shortages, unserved
from cotenant.prediction.contention import ACTIVITIES as COLUMNS
from cotenant.prediction.contention import Outcome
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power import (
    FREE,
    TYPICAL,
    Activity,
    Die,
    Heat,
    Limits,
    Phase,
    read_sensors,
    settle,
    simulate_timeline,
)
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords


class SimulatedBench(Modelled):
    """A simulated GPU prepared for trials."""

    def __init__(self, device: SimulatedGpuDevice, *, run: str) -> None:
        super().__init__(device, threads=1)
        self._device, self._run = device, run
        self._following: dict[int, Trial] = {}
        self._ahead: tuple[Trial, TrialSetup, Future[Outcome]] | None = None

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Describe every workload once, and note what follows what."""
        super().prepare(trials)
        self._following = {trial.number: following for trial, following in pairwise(trials)}

    def pause(self, seconds: float) -> None:
        """A no-op: nothing changes with time."""

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out a trial; a mix that doesn't fit is recorded, never raised."""
        device, started_utc = self._device, now_utc()
        setup, fates, simulated = self._begun(trial, rates)
        self._begin_next(trial, rates)
        if simulated is None:
            outcomes, samples = [unserved(seat, fates) for seat in setup.seats], Samples({}, ())
        else:
            outcome = simulated.result()
            outcomes = [
                seat_outcome(device, seat, requests, setup)
                for seat, requests in zip(setup.seats, outcome.requests, strict=True)
            ]
            samples = samples_of(device, outcome, setup.controls.limits)
        return assemble(
            trial,
            outcomes,
            Circumstances(
                run=self._run,
                session=session,
                device=device.name,
                simulated=True,
                cores=1,
                started_utc=started_utc,
                timing=setup.timing,
                samples=samples,
                sharing_violations=(),
                control_violations=(),
            ),
        )

    def _begun(
        self, trial: Trial, rates: Mapping[str, float]
    ) -> tuple[TrialSetup, Mapping[str, str], Future[Outcome] | None]:
        """The trial in progress, or the tenants that ran out of memory."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == trial:
            return ahead[1], {}, ahead[2]
        setup = set_up(self._device, trial, rates)
        fates = shortages(self._device, setup)
        return setup, fates, None if fates else self._workers.submit(self._simulated, setup)

    def _begin_next(self, trial: Trial, rates: Mapping[str, float]) -> None:
        """While a trial's records are written, the next is already simulated: compiled code needs no lock."""
        coming = self._following.get(trial.number)
        if coming is not None:
            setup, fates, simulated = self._begun(coming, rates)
            self._ahead = None if fates or simulated is None else (coming, setup, simulated)

    def _simulated(self, setup: TrialSetup) -> Outcome:
        outcome = play(self._device, setup, None)
        clock = settled_clock_mhz(self._device, outcome, setup.controls.limits)
        return outcome if clock is None else play(self._device, setup, clock)


# --- simulated sensor readings of a GPU during a trial

_HEATED = 5
"""Periods over which heat and power are computed at once: they settle in seconds."""
_SHOWN = {"sm_active": "sm", "tensor_active": "tensor", "dram_active": "dram"}


def settled_clock_mhz(device: SimulatedGpuDevice, outcome: Outcome, limits: Limits) -> float | None:
    """The clock of this die under the limits set by a study; None if it is the clock that costs assume."""
    if limits == FREE and device.die == TYPICAL:
        return None
    activity = mean_activity(outcome)
    held = settle(device.gpu, activity, device.die, limits)
    return held.clock_mhz * assumed_over_typical(device.gpu, activity)


def assumed_over_typical(gpu: GpuSpec, activity: Activity) -> float:
    """The clock under load that costs assume, relative to where a typical die settles without limits."""
    return gpu.clocks_mhz.under_load / settle(gpu, activity).clock_mhz


def samples_of(
    device: SimulatedGpuDevice, outcome: Outcome, limits: Limits, *, die: Die | None = None, start: Heat | None = None
) -> Samples:
    """Activity per period, and power, clock, temperature and energy through their sensors.

    Args:
        device: The GPU.
        outcome: Its activity.
        limits: The study's limits.
        die: The die in this trial, if its air temperature varies; None for the default.
        start: Its heat when the trial began; None for that after a long warm-up.
    """
    if not outcome.activity.size:
        return Samples({}, ())
    period_s = outcome.period_ns / 1e9
    ends_ns = (np.arange(1, len(outcome.activity) + 1) * outcome.period_ns).astype(np.int64)
    infos = {info.name: info for info in device.sensor_infos()}
    values = {name: outcome.activity[:, COLUMNS.index(_SHOWN[name])] for name in ACTIVITIES}
    truth = simulate_timeline(
        device.gpu,
        [
            Phase(period_s * len(rows), _activity(rows.mean(axis=0)))
            for start in range(0, len(outcome.activity), _HEATED)
            if (rows := outcome.activity[start : start + _HEATED]).size
        ],
        die=die or device.die,
        limits=limits,
        start=start,
        step_s=period_s * _HEATED,
    )
    readings = read_sensors(device.gpu, truth, np.minimum(ends_ns / 1e9, truth.end))
    values |= {
        "power_w": readings.power_w,
        "sm_clock_mhz": readings.clock_mhz,
        "temperature_c": readings.temperature_c,
        "energy_j": readings.energy_j,
    }
    count = len(ends_ns)
    columns = {
        "t_ns": np.repeat(ends_ns, len(values)),
        "device": np.full(count * len(values), device.name, object),
        "sensor": _tiled(list(values), count),
        "value": np.stack(list(values.values()), axis=1).astype(np.float64).ravel(),
        "unit": _tiled([infos[name].unit for name in values], count),
        "source": _tiled([infos[name].source for name in values], count),
    }
    return Samples(columns, ())


def _tiled(words: list[str], count: int) -> np.ndarray:
    """The words again and again, as objects: text of fixed width is copied at full width, and converted later."""
    return np.tile(np.array(words, object), count)


def _activity(row: np.ndarray) -> Activity:
    return Activity(
        compute=float(min(row[COLUMNS.index("sm")], 1.0)), memory=float(min(row[COLUMNS.index("dram")], 1.0))
    )


def mean_activity(outcome: Outcome) -> Activity:
    """Average activity of the device."""
    return _activity(outcome.activity.mean(axis=0))
