"""What a device is: sensors, controls, and the ways it can be shared. One protocol for CPU, GPU and simulation.

Runner side: a `Device` arranges tenants (which processes, with what environment) and reads sensors.
Tenant side: inside its process a tenant takes a `Seat`, which applies its part of the arrangement, tells the
workload where it is, and says afterwards what it really got, so that sharing is verified and not believed.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from cotenant.prediction.batch_limit import Room
from cotenant.tenancy.nouns import Sharing, Tenant
from cotenant.workloads.protocol import Dtype, Place, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class SharingMode:
    """One way to share this device, and whether it can be used here and now."""

    mode: str
    meaning: str
    available: bool = True
    missing: str | None = None
    """What is missing, if it isn't available."""
    instead: str | None = None
    """The next best mode."""


@dataclass(frozen=True, slots=True)
class SensorInfo:
    """A quantity that can be read, and what a reading of it is worth."""

    name: str
    unit: str
    source: str
    period_s: float
    """How often the value changes: reading it faster tells nothing more."""
    quality: str
    """One clause: counter or average, window, accuracy, what it can't see."""


class Probe(Protocol):
    """Reads one or several sensors at once."""

    sensors: tuple[SensorInfo, ...]

    def read(self) -> Sequence[float]:
        """One value per sensor; NaN where it gave nothing this time. Raises OSError if the source is gone."""
        ...


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """One tenant's place within a host process. ``options`` is JSON: the device's seat understands it."""

    tenant: int
    """Index into the mix."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One process to start: its extra environment and who sits in it."""

    seats: tuple[SeatPlan, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeatReport:
    """What a tenant's process says it really got."""

    tenant: str
    pid: int
    observed: Mapping[str, Any]


class Fixture(Protocol):
    """What a sharing needs beside its tenants: a daemon, a partition, a mode of the device.

    It stands before the first tenant process starts on it, and until the last one has ended. Arrangements that can
    stand on the same fixture get the same object.
    """

    name: str
    alone: bool
    """It can't stand while processes of other fixtures, or of none, are on the device: they are ended first."""

    def __enter__(self) -> Self:
        """Set it up. Raises SharingUnavailable."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Put everything back, on every path out."""
        ...

    def stands(self) -> bool:
        """Whether it is still there."""
        ...


class Arrangement(Protocol):
    """A mix laid out on a device under one sharing."""

    fixture: Fixture | None
    """None: nothing has to stand beside the tenants."""

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The processes to start; known at the latest when the fixture stands."""
        ...

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """One sentence for each way in which the device is not shared as asked; empty: it is."""
        ...


@dataclass(frozen=True, slots=True)
class Roofline:
    """What the device can do at best, measured here."""

    flops_per_s: Mapping[str, float]
    """By dtype."""
    bytes_per_s: float
    cores: int
    measured_utc: str
    undisturbed: bool = True
    """False: something else used the device meanwhile, so it can do more than this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor."""

    subject: str
    state: Literal["ok", "note", "warning", "problem"]
    text: str
    fix: str | None = None
    """The command or step that fixes it."""


class Seat(Place, Protocol):
    """A tenant's place, inside the tenant's own thread."""

    def occupy(self) -> AbstractContextManager[None]:
        """Apply the arrangement to the calling thread: affinity, thread count, stream, partition."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has done all that this tenant gave it."""
        ...

    def mark(self) -> Any:
        """A point in device time."""
        ...

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Device time between two marks; call it after `synchronise`."""
        ...

    def memory_bytes(self) -> int:
        """The most memory held on the device so far."""
        ...

    def observed(self) -> Mapping[str, Any]:
        """What this tenant really got, read back from the system."""
        ...


class Device(Protocol):
    """Somewhere to run: one device, or a group of them that is measured together."""

    name: str
    simulated: bool
    names: tuple[str, ...]
    """Members of a group, by name; empty: it is one device."""

    @property
    def kind(self) -> DeviceKind:
        """What its tenants compute on."""
        ...

    @property
    def meaning(self) -> str:
        """What it is, in one clause."""
        ...

    @property
    def members(self) -> "tuple[Device, ...]":
        """The devices it consists of: a group's members, or itself."""
        ...

    def only(self, names: Sequence[str | None]) -> "Device":
        """The part of a group with these members (None: the first); a single device is returned as it is."""
        ...

    def identities(self) -> Mapping[str, str]:
        """By member, a name that holds on every machine and after a reboot (its UUID); empty for a single device."""
        ...

    def lost(self) -> tuple[str, ...]:
        """One sentence for each member of a group that no longer answers."""
        ...

    def simulation(self, member: str | None = None) -> "SimulatedGpu":
        """The simulated GPU behind it (of a group: behind a member). Raises DeviceError for a real device."""
        ...

    @property
    def default_dtype(self) -> Dtype:
        """The number format it computes fastest in without losing accuracy that models need."""
        ...

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with the number format that its tenants use here, where neither it nor its workload names one."""
        ...

    @property
    def stand_in(self) -> bool:
        """Tenants compute on the CPU although the device is a GPU: sensors and controls are tested without one."""
        ...

    @property
    def nsys_index(self) -> int | None:
        """The number by which Nsight Systems knows the GPU; None: it can't profile this device."""
        ...

    @property
    def reports_priorities(self) -> bool:
        """Whether the priority that a tenant was given can be read back."""
        ...

    @property
    def host_cores(self) -> int:
        """CPU cores on which its tenants' processes run: what their CPU time is a share of."""
        ...

    def lock_keys(self) -> tuple[str, ...]:
        """The physical resources it stands for: two devices that overlap share a key."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """JSON-able facts for the manifest: model, cores, memory, limits, clocks, versions."""
        ...

    def sharings(self) -> tuple[SharingMode, ...]:
        """Every way it can be shared, available or not."""
        ...

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> Arrangement:
        """Lay a mix out. Raises SharingUnavailable with what is missing and the next best mode."""
        ...

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """Shares that are worth trying for a mix, beside what the mode does by itself."""
        ...

    def seat(self, options: Mapping[str, Any]) -> Seat:
        """A tenant's seat; called in the tenant's process."""
        ...

    def probes(self) -> Sequence[Probe]:
        """The sensors that can be read here, grouped by how they are read."""
        ...

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """Set the controls, give sentences for what did not take, restore on leaving.

        Raises DeviceError when it is called, before anything is set, for what this device can't or this user may not
        set: a plan calls it without entering, so that a run that can't be carried out fails at once.
        Read the sentences after leaving: some things show only then (a locked clock that a power limit pulled down).
        """
        ...

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings with values relative to the device (`80%`) as numbers. Raises DeviceError for bad values."""
        ...

    def free_memory_bytes(self) -> int:
        """Memory that all tenants can have together now."""
        ...

    def least_free_bytes(self) -> int:
        """Memory that the tenants of one member can have while all members are used."""
        ...

    @property
    def tenant_bytes(self) -> int:
        """Memory that each tenant takes besides its model: an estimate."""
        ...

    def room(self, memory_bytes: int | None = None) -> Room:
        """What a single tenant has, for the largest batch; ``memory_bytes`` instead of what is free."""
        ...

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """One sentence for each process on the device that isn't the study's; empty too where it can't tell."""
        ...

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak rates, measured once and cached. Raises DeviceError where they can't be measured."""
        ...

    def remembered_roofline(self) -> Roofline | None:
        """Peak rates from the cache; None: they were not measured yet."""
        ...

    def checkup(self) -> tuple[Finding, ...]:
        """The doctor's findings."""
        ...
