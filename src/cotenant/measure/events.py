"""What a run tells while it goes on: a closed set of events, for progress displays and tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.tenancy.records import Verdict


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run folder exists and the device is locked."""

    folder: Path
    study: str
    device: str
    simulated: bool
    trials_per_block: int
    blocks_min: int
    blocks_max: int
    budget_s: float | None
    target: float | None
    """Relative half-width of every slowdown at which the run stops."""
    resumed: bool
    done_trials: int


@dataclass(frozen=True, slots=True)
class Preparing:
    """Something slow that is not a trial: building tenants, calibrating, warming up."""

    text: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that the user should know before the run ends: a load that can't be kept up with."""

    text: str


@dataclass(frozen=True, slots=True)
class DeviceAt:
    """One of several devices that are measured at the same time: where it is now."""

    device: str
    doing: str
    trials: int
    """Done in this start of the run."""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial begins."""

    trial: int
    block: int
    mix: str
    sharing: str
    load: str


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial's records are on disk."""

    trial: int
    block: int
    mix: str
    sharing: str
    load: str
    verdict: Verdict
    reasons: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class CurrentEstimate:
    """One slowdown as known so far."""

    mix: str
    sharing: str
    load: str
    tenant: str
    slowdown: Estimate


@dataclass(frozen=True, slots=True)
class BlockDone:
    """A block is complete; the estimates are those of all blocks so far."""

    block: int
    estimates: tuple[CurrentEstimate, ...]
    widest: float | None
    """The largest relative half-width of a slowdown; None while there is no interval."""
    elapsed_s: float
    left_s: float | None
    """Expected time to the end; None if it isn't known yet."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """No more trials will be carried out."""

    folder: Path
    why: str
    """`precise enough`, `time budget used`, `all blocks done`, `interrupted`, ..."""


Event = RunStarted | Preparing | Noticed | DeviceAt | TrialStarted | TrialDone | BlockDone | RunEnded
Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """A listener that ignores everything."""
