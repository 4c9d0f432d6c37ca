"""Events a run emits: a closed set, for progress displays and tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.tenancy.interval import Estimate
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
    """The run stops when every slowdown's relative half-width is below this."""
    resumed: bool
    done_trials: int
    demands: tuple[str, ...] = ()
    """Requests and items per second of each tenant with a rate."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """A slow step other than a trial: building tenants, calibrating, warming up."""

    text: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """A warning the user should see before the run ends: a load that can't be sustained."""

    text: str


@dataclass(frozen=True, slots=True)
class DeviceAt:
    """Progress of a device among several measured at the same time."""

    device: str
    doing: str
    trials: int
    """Trials done since this start of the run."""
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
    """One slowdown as estimated so far."""

    mix: str
    sharing: str
    load: str
    tenant: str
    slowdown: Estimate


@dataclass(frozen=True, slots=True)
class BlockDone:
    """A block is complete; the estimates cover all blocks so far."""

    block: int
    estimates: tuple[CurrentEstimate, ...]
    widest: float | None
    """The largest relative half-width of a slowdown; None while there is no interval."""
    elapsed_s: float
    left_s: float | None
    """Expected time to the end; None if not known yet."""


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
