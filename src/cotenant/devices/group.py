"""Several devices as a single device: a multi-GPU machine, single cores of a CPU, a simulated fleet.

Each member is a device. Tenants name the member they run on; everything else (seats,
sharing, controls, sensors) is delegated to the members.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from cotenant.devices.protocol import (
    Arrangement,
    Device,
    DeviceKind,
    Finding,
    Fixture,
    HostPlan,
    Probe,
    Roofline,
    Seat,
    SeatReport,
    SensorInfo,
    SharingMode,
)
from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import Room
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.records import APART
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import Dtype, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice

_MEMBER = "member"
"""The seat option that names its member."""


class MemberProbe:
    """A member's probe, labelled with the member."""

    def __init__(self, device: str, probe: Probe) -> None:
        self.device = device
        """The member's stable identity."""
        self.sensors: tuple[SensorInfo, ...] = probe.sensors
        self.read = probe.read


class GroupFixture:
    """The fixtures of all members' sharings together: all are set up, or none."""

    def __init__(self, fixtures: Sequence[Fixture], users: Counter[int]) -> None:
        self.name = ", ".join(dict.fromkeys(fixture.name for fixture in fixtures))
        self.alone = any(fixture.alone for fixture in fixtures)
        self._fixtures = tuple(fixtures)
        self._users = users
        self._standing = ExitStack()

    def __enter__(self) -> Self:
        """Set all of them up."""
        with ExitStack() as entering:
            for fixture in self._fixtures:
                entering.enter_context(self._held(fixture))
            self._standing = entering.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        """Restore everything, even if a member fails."""
        self._standing.close()

    @contextmanager
    def _held(self, fixture: Fixture) -> Iterator[None]:
        """A member's fixture serves every set of members it belongs to: the last to finish tears it down."""
        if not self._users[id(fixture)]:
            fixture.__enter__()
        self._users[id(fixture)] += 1
        try:
            yield
        finally:
            self._users[id(fixture)] -= 1
            if not self._users[id(fixture)]:
                fixture.__exit__(None, None, None)

    def stands(self) -> bool:
        """True while all of them are up."""
        return all(fixture.stands() for fixture in self._fixtures)


@dataclass(frozen=True, slots=True)
class _Part:
    """A member's part of a mix."""

    member: str
    tenants: tuple[int, ...]
    """Positions in the full mix."""
    names: tuple[str, ...]
    arrangement: Arrangement


@dataclass(slots=True)
class GroupArrangement:
    """A mix laid out over members."""

    parts: tuple[_Part, ...]
    fixture: Fixture | None = None

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The members' processes, with tenants numbered over the full mix."""
        return tuple(_of_member(host, part) for part in self.parts for host in part.arrangement.hosts)

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """Each member verifies its own tenants."""
        return tuple(
            sentence
            for part in self.parts
            for sentence in part.arrangement.verify([report for report in reports if report.tenant in part.names])
        )


class DeviceGroup:
    """Devices that are measured together; each is opened when first needed."""

    def __init__(
        self, name: str, names: Sequence[str], open_member: Callable[[str], Device], *, simulated: bool = False
    ) -> None:
        self.name = name
        self.names = tuple(names)
        self.simulated = simulated
        self._open = open_member
        self._opened: dict[str, Device] = {}
        self._identities: dict[str, str] = {}
        self._fixtures: dict[tuple[int, ...], GroupFixture] = {}
        self._users: Counter[int] = Counter()

    @property
    def members(self) -> tuple[Device, ...]:
        """All of them, in order."""
        return tuple(self.member(name) for name in self.names)

    def member(self, name: str | None) -> Device:
        """A member; the first for a tenant that names none.

        Raises:
            DeviceError: The group has no such member.
        """
        name = self.names[0] if name is None else name
        if name not in self._opened:
            if name not in self.names:
                raise DeviceError(
                    f"{self.name} has no member {name!r}", hint=f"it has {self.names[0]} to {self.names[-1]}"
                )
            self._opened[name] = self._open(name)
        return self._opened[name]

    def simulation(self, member: str | None = None) -> "SimulatedGpuDevice":
        """The simulated GPU behind a member."""
        return self.member(member).simulation()

    def identity(self, name: str) -> str:
        """A member's UUID, or its name if it has none."""
        if name not in self._identities:
            device = self.member(name)
            known = None if device.simulated else device.describe().get("uuid")
            self._identities[name] = str(known or device.name)
        return self._identities[name]

    def identities(self) -> Mapping[str, str]:
        """Stable identities of the members by name."""
        return {name: self.identity(name) for name in self.names}

    def only(self, names: Sequence[str | None]) -> "DeviceGroup":
        """The part of the group that a trial on some of its members uses."""
        wanted = {name or self.names[0] for name in names}
        kept = [name for name in self.names if name in wanted] or self.names[:1]
        part = DeviceGroup(self.name, kept, self._open, simulated=self.simulated)
        for shared in ("_opened", "_identities", "_fixtures", "_users"):
            setattr(part, shared, getattr(self, shared))
        return part

    @property
    def meaning(self) -> str:
        """One-clause description."""
        return f"{len(self.names)} members, each {self.member(None).meaning}"

    @property
    def kind(self) -> DeviceKind:
        """The members' own."""
        return self.member(None).kind

    @property
    def default_dtype(self) -> Dtype:
        """The members' own."""
        return self.member(None).default_dtype

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """As for the first member's tenants: members are compared at the same work."""
        return self.member(None).spec(spec)

    @property
    def stand_in(self) -> bool:
        """True if the members' tenants compute on the CPU instead."""
        return self.member(None).stand_in

    @property
    def nsys_index(self) -> int | None:
        """None: a group of GPUs has no single index."""
        return None

    @property
    def reports_priorities(self) -> bool:
        """True if they can on its members."""
        return self.member(None).reports_priorities

    @property
    def host_cores(self) -> int:
        """The members' cores combined; GPUs all use the machine's."""
        counts = [member.host_cores for member in self.members]
        return sum(counts) if self.kind == "cpu" else max(counts)

    def lock_keys(self) -> tuple[str, ...]:
        """Resources of all members."""
        return tuple(dict.fromkeys(key for member in self.members for key in member.lock_keys()))

    def describe(self) -> Mapping[str, Any]:
        """Facts the members share, and where each differs."""
        return described_together(
            {name: dict(self.member(name).describe()) for name in self.names}, dict(self.identities())
        )

    def sharings(self) -> tuple[SharingMode, ...]:
        """Sharing modes available on every member, or why a member lacks a mode."""
        by_mode: dict[str, SharingMode] = {}
        for member in self.members:
            for mode in member.sharings():
                if by_mode.setdefault(mode.mode, mode).available and not mode.available:
                    by_mode[mode.mode] = mode
        return tuple(by_mode.values())

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> GroupArrangement:
        """Each member lays out its own tenants; a single tenant on a member is alone there."""
        places: dict[str, list[int]] = {}
        for index, tenant in enumerate(tenants):
            places.setdefault(tenant.member or self.names[0], []).append(index)
        parts = []
        for name, indices in places.items():
            mine = [tenants[index] for index in indices]
            alone = sharing.mode == APART or len(mine) == 1
            arrangement = self.member(name).arrange(Sharing(mode=ALONE) if alone else sharing, mine)
            parts.append(_Part(name, tuple(indices), tuple(tenant.name for tenant in mine), arrangement))
        return GroupArrangement(tuple(parts), self._fixture([part.arrangement for part in parts]))

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """Those of the first member: members are compared at equal shares."""
        return self.member(None).layouts(mode, tenants)

    def _fixture(self, arrangements: Sequence[Arrangement]) -> Fixture | None:
        """Return the same object for mixes whose members use the same fixtures."""
        fixtures = [arrangement.fixture for arrangement in arrangements if arrangement.fixture is not None]
        if not fixtures:
            return None
        return self._fixtures.setdefault(
            tuple(id(fixture) for fixture in fixtures), GroupFixture(fixtures, self._users)
        )

    def seat(self, options: Mapping[str, Any]) -> Seat:
        """The member's seat, without opening other members."""
        return self.member(options[_MEMBER]).seat({key: value for key, value in options.items() if key != _MEMBER})

    def probes(self) -> Sequence[Probe]:
        """Probes of all members, each labelled with its member."""
        return [MemberProbe(self.identity(name), probe) for name in self.names for probe in self.member(name).probes()]

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """Set the controls of all members, and restore all of them."""
        return self._applied([(name, self.member(name).apply(settings)) for name in self.names])

    @contextmanager
    def _applied(self, members: Sequence[tuple[str, AbstractContextManager[Sequence[str]]]]) -> Iterator[Sequence[str]]:
        sentences: list[str] = []
        with ExitStack() as restore:
            broken = [(name, restore.enter_context(controls)) for name, controls in members]
            # Filled once all are restored: some problems only show then.
            restore_first = restore.pop_all()
            try:
                yield sentences
            finally:
                restore_first.close()
                sentences += [f"{name}: {sentence}" for name, found in broken for sentence in found]

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Relative settings resolved for the first member: members are compared at equal settings."""
        return self.member(None).absolute(settings)

    def free_memory_bytes(self) -> int:
        """Memory available to all tenants together; CPU cores share the machine's."""
        pools: dict[str, int] = {}
        for member in self.members:
            pool = "host" if member.kind == "cpu" else member.name
            pools[pool] = min(member.free_memory_bytes(), pools.get(pool, 1 << 62))
        return sum(pools.values())

    def least_free_bytes(self) -> int:
        """Memory available to the tenants of the fullest member while all members are used."""
        least = min(member.free_memory_bytes() for member in self.members)
        return least // len(self.names) if self.kind == "cpu" else least

    @property
    def tenant_bytes(self) -> int:
        """The members' own."""
        return self.member(None).tenant_bytes

    def room(self, memory_bytes: int | None = None) -> Room:
        """The first member's."""
        return self.member(None).room(memory_bytes)

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """Strangers on any member."""
        return tuple(sentence for member in self.members for sentence in member.foreign_processes(own))

    def lost(self) -> tuple[str, ...]:
        """One sentence for each member that no longer answers."""
        gone = []
        for member in self.members:
            try:
                member.free_memory_bytes()
            except DeviceError as error:
                gone.append(error.message)
        return tuple(gone)

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak rates of a member."""
        return self.member(None).roofline(refresh=refresh)

    def remembered_roofline(self) -> Roofline | None:
        """Cached peak rates of a member; None if not measured yet."""
        return self.member(None).remembered_roofline()

    def checkup(self) -> tuple[Finding, ...]:
        """The members' findings; those common to all are given once."""
        return tuple(dict.fromkeys(finding for member in self.members for finding in member.checkup()))


def described_together(described: Mapping[str, Mapping[str, Any]], identities: Mapping[str, str]) -> dict[str, Any]:
    """Facts the members share, and where each differs, by member name."""
    first = next(iter(described.values()))
    common = {
        key: value
        for key, value in first.items()
        if all(key in description and description[key] == value for description in described.values())
    }
    members = [
        {_MEMBER: name, "identity": identities[name]}
        | {key: value for key, value in description.items() if key not in common}
        for name, description in described.items()
    ]
    return {**common, "members": members}


def _of_member(host: HostPlan, part: _Part) -> HostPlan:
    seats = tuple(
        replace(seat, tenant=part.tenants[seat.tenant], options={**seat.options, _MEMBER: part.member})
        for seat in host.seats
    )
    return replace(host, seats=seats)
