"""The device protocol: sensors, controls and sharing modes of a CPU, GPU or simulation.

Runner side: a `Device` arranges tenants (processes and their environment) and reads sensors.
Tenant side: in its process a tenant takes a `Seat`, which applies its part of the arrangement, tells the
workload where it runs, and reports what it actually got, so that sharing is verified.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from cotenant.workloads.protocol import Dtype, Place, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice
    from cotenant.prediction.batch_limit import Room
    from cotenant.tenancy.nouns import Tenant
    from cotenant.tenancy.sharing import Sharing

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class SharingMode:
    """One sharing mode of this device, and whether it is available here and now."""

    mode: str
    meaning: str
    available: bool = True
    missing: str | None = None
    """The missing requirement, if it is unavailable."""
    instead: str | None = None
    """The next best mode."""


@dataclass(frozen=True, slots=True)
class SensorInfo:
    """A quantity that can be read, and the quality of its readings."""

    name: str
    unit: str
    source: str
    period_s: float
    """How often the value changes: faster reading adds nothing."""
    quality: str
    """One clause: counter or average, window, accuracy, blind spots."""


class Probe(Protocol):
    """Reads sensors, several at once if possible."""

    sensors: tuple[SensorInfo, ...]

    def read(self) -> Sequence[float]:
        """One value per sensor; NaN where there is none this time. Raises OSError if the source is gone."""
        ...


@dataclass(slots=True)
class FunctionProbe:
    """Sensors that a function reads."""

    sensors: tuple[SensorInfo, ...]
    reader: Callable[[], Sequence[float]]

    def read(self) -> Sequence[float]:
        """See `Probe`."""
        return self.reader()


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """One tenant's place in a host process. ``options`` is JSON for the device's seat."""

    tenant: int
    """Index into the mix."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One process to start: its extra environment and its tenants."""

    seats: tuple[SeatPlan, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    forked: bool = False
    """Start it as a fork of a process that has loaded torch. Not on GPUs: their drivers don't survive a fork."""


@dataclass(frozen=True, slots=True)
class SeatReport:
    """What a tenant's process reports having got."""

    tenant: str
    pid: int
    observed: Mapping[str, Any]


class Fixture(Protocol):
    """What a sharing mode needs besides its tenants: a daemon, a partition, a mode of the device.

    It is set up before the first tenant process starts and torn down after the last ends. Arrangements that can
    use the same fixture get the same object.
    """

    name: str
    alone: bool
    """True if processes of other fixtures, or of none, must end before it is set up."""

    def __enter__(self) -> Self:
        """Set it up. Raises SharingUnavailable."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Tear it down and restore the previous state, on every exit."""
        ...

    def stands(self) -> bool:
        """True while it is up."""
        ...


class Arrangement(Protocol):
    """A mix laid out on a device under a sharing."""

    fixture: Fixture | None
    """None if the tenants need none."""

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The processes to start; known once the fixture is set up."""
        ...

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """One sentence for each way in which the device is not shared as requested; empty if it is."""
        ...


@dataclass(frozen=True, slots=True)
class Roofline:
    """Peak rates of the device, measured here."""

    flops_per_s: Mapping[str, float]
    """By dtype."""
    bytes_per_s: float
    cores: int
    measured_utc: str
    undisturbed: bool = True
    """False if something else used the device meanwhile, so that its peak is higher."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of the doctor."""

    subject: str
    state: Literal["ok", "note", "warning", "problem"]
    text: str
    fix: str | None = None
    """The command or step that fixes it."""


class Seat(Place, Protocol):
    """A tenant's place on the device, used in the tenant's own thread."""

    def occupy(self) -> AbstractContextManager[None]:
        """Apply the arrangement to the calling thread: affinity, thread count, stream, partition."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has finished all of this tenant's work."""
        ...

    def mark(self) -> Any:
        """A point in device time."""
        ...

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Device time between two marks; call it after `synchronise`."""
        ...

    def memory_bytes(self) -> int:
        """Peak memory held on the device so far."""
        ...

    def observed(self) -> Mapping[str, Any]:
        """What this tenant actually got, read back from the system."""
        ...


class Device(Protocol):
    """A device, or a group of devices measured together."""

    name: str
    simulated: bool
    names: tuple[str, ...]
    """Members of a group, by name; empty for a single device."""

    @property
    def kind(self) -> DeviceKind:
        """The hardware its tenants compute on."""
        ...

    @property
    def meaning(self) -> str:
        """One-clause description."""
        ...

    @property
    def members(self) -> "tuple[Device, ...]":
        """A group's members, or the device itself."""
        ...

    def only(self, names: Sequence[str | None]) -> "Device":
        """The part of a group with these members (None: the first); a single device returns itself."""
        ...

    def identities(self) -> Mapping[str, str]:
        """By member, an identity that is stable across machines and reboots (its UUID); empty for a single device."""
        ...

    def lost(self) -> tuple[str, ...]:
        """One sentence for each member of a group that no longer answers."""
        ...

    def simulation(self, member: str | None = None) -> "SimulatedGpuDevice":
        """The simulated GPU behind it (or behind a group's member). Raises DeviceError for a real device."""
        ...

    @property
    def default_dtype(self) -> Dtype:
        """The fastest number format that keeps the accuracy models need."""
        ...

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with the number format its tenants use here, unless it or its workload names it."""
        ...

    @property
    def stand_in(self) -> bool:
        """True if tenants compute on the CPU although the device is a GPU: to test sensors and controls without it."""
        ...

    @property
    def nsys_index(self) -> int | None:
        """The GPU's index in Nsight Systems; None if it can't profile this device."""
        ...

    @property
    def reports_priorities(self) -> bool:
        """True if a tenant's priority can be read back."""
        ...

    @property
    def host_cores(self) -> int:
        """CPU cores its tenants' processes run on: their CPU time is a share of these."""
        ...

    def lock_keys(self) -> tuple[str, ...]:
        """Keys of the physical resources it uses: devices that overlap share a key."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """JSON-able facts for the manifest: model, cores, memory, limits, clocks, versions."""
        ...

    def sharings(self) -> tuple[SharingMode, ...]:
        """Every sharing mode, available or not."""
        ...

    def arrange(self, sharing: "Sharing", tenants: "Sequence[Tenant]") -> Arrangement:
        """Lay a mix out. Raises SharingUnavailable with what is missing and the next best mode."""
        ...

    def layouts(self, mode: str, tenants: "Sequence[Tenant]") -> "tuple[Sharing, ...]":
        """Shares worth trying for a mix, besides the mode's default."""
        ...

    def seat(self, options: Mapping[str, Any]) -> Seat:
        """A tenant's seat; called in the tenant's process."""
        ...

    def probes(self) -> Sequence[Probe]:
        """The sensors readable here, grouped by how they are read."""
        ...

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """Set the controls, yield sentences for those that did not take effect, restore on exit.

        Raises DeviceError when called, before anything is set, for settings the device lacks or this user may not
        change: planning calls it without entering, so that an impossible run fails at once.
        Read the sentences after leaving: some problems show only then (a power limit that lowered a locked clock).
        """
        ...

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings with relative values (`80%`) resolved. Raises DeviceError for bad values."""
        ...

    def free_memory_bytes(self) -> int:
        """Memory available to all tenants together now."""
        ...

    def least_free_bytes(self) -> int:
        """Memory available to the tenants of a member while all members are used."""
        ...

    @property
    def tenant_bytes(self) -> int:
        """Estimated memory of a tenant besides its model."""
        ...

    def room(self, memory_bytes: int | None = None) -> "Room":
        """Limits of a single tenant, for the largest batch; ``memory_bytes`` overrides the free memory."""
        ...

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """One sentence for each process on the device outside the study; also empty where unknown."""
        ...

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak rates, measured once and cached. Raises DeviceError where they can't be measured."""
        ...

    def remembered_roofline(self) -> Roofline | None:
        """Cached peak rates; None if not measured yet."""
        ...

    def checkup(self) -> tuple[Finding, ...]:
        """The doctor's findings."""
        ...
