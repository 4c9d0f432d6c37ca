"""Forecast of a study: trials, time and memory, before anything is started."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cotenant.errors import DoesNotFit
from cotenant.study.expand import needs_capacity, trials_per_block
from cotenant.study.mixes import Mix
from cotenant.study.model import Study
from cotenant.study.windows import expected
from cotenant.tenancy.words import shown
from cotenant.workloads.protocol import Figures, WorkloadSpec

SWITCH_S = 0.022
"""Time between trials: requests in progress finish, all tenants start again, and now and then records are written.
Measured on two cores."""
START_S = 9.0
"""Time until the first trial: libraries are loaded, and tenants built and warmed up. Measured with three small ones."""


@dataclass(frozen=True, slots=True)
class MixMemory:
    """Peak memory of a mix."""

    mix: str
    needed_bytes: int
    """A lower bound if ``unknown`` is not empty."""
    biggest: str
    biggest_bytes: int
    unknown: tuple[str, ...]
    """Tenants whose memory is unknown before they run."""
    fits: bool
    solo: bool = False
    """A tenant, alone on the device."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Cost of a study. Seconds count leads and windows; building the tenants comes on top."""

    study: str
    device: str
    trials_per_block: int
    calibrations: int
    """Solo measurements of capacity before the first block, for loads given as a share."""
    blocks_min: int
    blocks_max: int
    """Limited by the time budget, if that ends first."""
    trials_min: int
    trials_max: int
    seconds_min: float
    seconds_max: float
    memory_bytes: int
    """Free memory of the device."""
    memory: tuple[MixMemory, ...]
    """By mix, largest need first; includes solo mixes."""
    simulated: bool = False
    """A model computes the trials: their seconds are simulated, not wall-clock."""
    left_out: tuple[str, ...] = ()
    """Why `sharing: all` leaves out some mixes under some sharings, a sentence each."""
    window_s: float | None = None
    """Length of a window; None: chosen when the tenants are known, counted here as the shortest."""
    widest: float | None = None
    """Expected relative half-width of the widest slowdown at the end; None if unknown."""
    widest_from: str = ""
    """Basis of the expected half-width."""
    wall_s: float | None = None
    """For a simulated device: computing time on this machine; None if unknown."""
    problems: tuple[str, ...] = ()
    """A sentence for each tenant that can't keep up with its load or meet its objective, even alone."""
    unchecked: tuple[str, ...] = ()
    """What is unknown without running code that the study names, a sentence each."""

    def require_fit(self) -> None:
        """Refuse a study with a mix that does not fit in the device's memory.

        Raises:
            DoesNotFit: naming the mix, its biggest tenant, the memory needed and available.
        """
        misfits = [mix for mix in self.memory if not mix.fits]
        if not misfits:
            return
        worst = misfits[0]
        at_least = "at least " if worst.unknown else ""
        more = "" if len(misfits) == 1 else f"; {len(misfits) - 1} more don't fit either"
        raise DoesNotFit(
            f"mix {shown(worst.mix)} needs {at_least}{_readable(worst.needed_bytes)} "
            f"({_readable(worst.biggest_bytes)} of it for {shown(worst.biggest)}), "
            f"but {self.device} has {_readable(self.memory_bytes)} free{more}",
            hint=f"leave the mix out, lower the batch of {shown(worst.biggest)}, or use smaller (-mini) workloads",
        )

    def solo(self) -> "Forecast":
        """The same for every tenant alone."""
        return replace(self, memory=tuple(mix for mix in self.memory if mix.solo))

    def at_pace(self, block_s: float, study: Study) -> "Forecast":
        """The same with the time of a block as an earlier run had it, start included."""
        most = study.blocks.max if study.budget_s is None else min(study.blocks.max, int(study.budget_s / block_s))
        most = max(most, study.blocks.min)
        return replace(
            self,
            blocks_max=most,
            trials_max=self.trials_per_block * most,
            seconds_min=self.blocks_min * block_s,
            seconds_max=most * block_s,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"fits": all(mix.fits for mix in self.memory)}


def forecast(
    study: Study,
    *,
    modes: Sequence[str],
    memory_bytes: int,
    figures: Callable[[WorkloadSpec], Figures],
    base_bytes_per_tenant: int = 0,
    device: str | None = None,
    members: Sequence[str] = (),
    in_a_block: int | None = None,
    block_s: float | None = None,
    left_out: Sequence[str] = (),
    simulated: bool = False,
) -> Forecast:
    """Trials, time and memory of a study.

    Args:
        study: What to measure.
        modes: The ways to share that the device supports.
        memory_bytes: Device memory available to tenants.
        figures: Cost of a request of a workload; called once for each tenant.
        base_bytes_per_tenant: Memory of a tenant's process before it loads a model.
        device: Overrides the study's device.
        members: Names of a group's members.
        in_a_block: Trials per block, if the device can't do everything in the study.
        block_s: Leads and windows of a block, if its trials have lengths of their own.
        left_out: Why some of them are left out, a sentence each.
        simulated: A model computes the trials.
    """
    trials = trials_per_block(study, modes, members) if in_a_block is None else in_a_block
    calibrations = len(needs_capacity(study))
    lengths = expected(study)
    switch_s = 0.0 if simulated else SWITCH_S
    trial_s = lengths.window_s + lengths.lead_s + switch_s
    block_s = trials * trial_s if block_s is None else block_s + trials * switch_s
    most = study.blocks.max
    if study.budget_s is not None:
        start_s = 0.0 if simulated else START_S
        within = int(max(study.budget_s - start_s - calibrations * trial_s, 0) // block_s)
        most = max(study.blocks.min, min(most, within))
    peaks = {name: figures(study.tenants[name].spec()).peak_memory_bytes for name in study.measured()}
    solos = tuple(Mix(name, (name,)) for name in peaks)
    memory = [_memory(mix, peaks, base_bytes_per_tenant, memory_bytes) for mix in (*study.mix_list(), *solos)]
    return Forecast(
        study=study.name,
        device=device or study.device,
        trials_per_block=trials,
        calibrations=calibrations,
        blocks_min=study.blocks.min,
        blocks_max=most,
        trials_min=trials * study.blocks.min,
        trials_max=trials * most,
        seconds_min=calibrations * trial_s + study.blocks.min * block_s,
        seconds_max=calibrations * trial_s + most * block_s,
        memory_bytes=memory_bytes,
        memory=tuple(sorted(memory, key=lambda mix: -mix.needed_bytes)),
        simulated=simulated,
        left_out=tuple(left_out),
        window_s=study.window_s,
    )


def _memory(mix: Mix, peaks: dict[str, int | None], base_bytes: int, free_bytes: int) -> MixMemory:
    needs = {name: (peaks[name] or 0) + base_bytes for name in mix.members}
    needed = sum(needs[name] for name in mix.members)
    biggest = max(needs, key=lambda name: needs[name])
    unknown = tuple(name for name in needs if peaks[name] is None)
    return MixMemory(
        mix.label, needed, biggest, needs[biggest], unknown, fits=needed <= free_bytes, solo=len(mix.members) == 1
    )


def _readable(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
