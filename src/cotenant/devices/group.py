"""Several devices as one: a box of GPUs, the cores of a CPU one by one, a simulated fleet.

A group is made of members, each a device of its own. Tenants say on which member they sit; everything else (seats,
sharing, controls, sensors) is the members' own, so that a group adds no second way to do any of it.
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
from cotenant.tenancy.nouns import ALONE, APART, Sharing, Tenant
from cotenant.workloads.protocol import Dtype, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu

_MEMBER = "member"
"""The option by which a seat knows whose it is."""


class MemberProbe:
    """A member's probe, which knows whose sensors it reads."""

    def __init__(self, device: str, probe: Probe) -> None:
        self.device = device
        """The member's lasting identity."""
        self.sensors: tuple[SensorInfo, ...] = probe.sensors
        self.read = probe.read


class GroupFixture:
    """What the members' sharings need beside their tenants, as one: all of it stands, or none."""

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
        """Put everything back everywhere, whatever happens at one member."""
        self._standing.close()

    @contextmanager
    def _held(self, fixture: Fixture) -> Iterator[None]:
        """A member's fixture serves every set of members that it is part of: the last one puts it back."""
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
        """Whether all of them are still there."""
        return all(fixture.stands() for fixture in self._fixtures)


@dataclass(frozen=True, slots=True)
class _Part:
    """A member's part of a mix."""

    member: str
    tenants: tuple[int, ...]
    """Positions in the whole mix."""
    names: tuple[str, ...]
    arrangement: Arrangement


@dataclass(slots=True)
class GroupArrangement:
    """A mix laid out over members."""

    parts: tuple[_Part, ...]
    fixture: Fixture | None = None

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The members' processes, their tenants counted over the whole mix."""
        return tuple(_of_member(host, part) for part in self.parts for host in part.arrangement.hosts)

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """Each member looks at its own tenants."""
        return tuple(
            sentence
            for part in self.parts
            for sentence in part.arrangement.verify([report for report in reports if report.tenant in part.names])
        )


class DeviceGroup:
    """Devices that are measured together; each is opened when it is first needed."""

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
        """One of them; a tenant that doesn't say where it sits is with the first.

        Raises:
            DeviceError: It is none of the group's.
        """
        name = self.names[0] if name is None else name
        if name not in self._opened:
            if name not in self.names:
                raise DeviceError(
                    f"{self.name} has no member {name!r}", hint=f"it has {self.names[0]} to {self.names[-1]}"
                )
            self._opened[name] = self._open(name)
        return self._opened[name]

    def simulation(self, member: str | None = None) -> "SimulatedGpu":
        """The simulated GPU that a member is."""
        return self.member(member).simulation()

    def identity(self, name: str) -> str:
        """A member's UUID, or else its name."""
        if name not in self._identities:
            device = self.member(name)
            known = None if device.simulated else device.describe().get("uuid")
            self._identities[name] = str(known or device.name)
        return self._identities[name]

    def identities(self) -> Mapping[str, str]:
        """Lasting identities of the members by name."""
        return {name: self.identity(name) for name in self.names}

    def only(self, names: Sequence[str | None]) -> "DeviceGroup":
        """The group as a trial sees it that uses some of its members."""
        wanted = {name or self.names[0] for name in names}
        kept = [name for name in self.names if name in wanted] or self.names[:1]
        part = DeviceGroup(self.name, kept, self._open, simulated=self.simulated)
        for shared in ("_opened", "_identities", "_fixtures", "_users"):
            setattr(part, shared, getattr(self, shared))
        return part

    @property
    def meaning(self) -> str:
        """What it is, in one clause."""
        return f"{len(self.names)} members, each {self.member(None).meaning}"

    @property
    def kind(self) -> DeviceKind:
        """That of its members."""
        return self.member(None).kind

    @property
    def default_dtype(self) -> Dtype:
        """That of its members."""
        return self.member(None).default_dtype

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """As its first member's tenants run it: members are compared at the same work."""
        return self.member(None).spec(spec)

    @property
    def stand_in(self) -> bool:
        """Whether the members' tenants compute on the CPU instead."""
        return self.member(None).stand_in

    @property
    def nsys_index(self) -> int | None:
        """None: several GPUs have several."""
        return None

    @property
    def reports_priorities(self) -> bool:
        """Whether its members do."""
        return self.member(None).reports_priorities

    @property
    def host_cores(self) -> int:
        """Cores of their own add up; GPUs use the machine's, all of them the same ones."""
        counts = [member.host_cores for member in self.members]
        return sum(counts) if self.kind == "cpu" else max(counts)

    def lock_keys(self) -> tuple[str, ...]:
        """Those of all members."""
        return tuple(dict.fromkeys(key for member in self.members for key in member.lock_keys()))

    def describe(self) -> Mapping[str, Any]:
        """What the members have in common, and where each differs."""
        return described_together(
            {name: dict(self.member(name).describe()) for name in self.names}, dict(self.identities())
        )

    def sharings(self) -> tuple[SharingMode, ...]:
        """The ways in which every member can be shared, or why one of them can't."""
        by_mode: dict[str, SharingMode] = {}
        for member in self.members:
            for mode in member.sharings():
                if by_mode.setdefault(mode.mode, mode).available and not mode.available:
                    by_mode[mode.mode] = mode
        return tuple(by_mode.values())

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> GroupArrangement:
        """Each member lays its own tenants out; one tenant on a member is alone there."""
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
        """Those of its first member: members are compared at equal shares."""
        return self.member(None).layouts(mode, tenants)

    def _fixture(self, arrangements: Sequence[Arrangement]) -> Fixture | None:
        """Mixes whose members stand on the same fixtures get the same object."""
        fixtures = [one.fixture for one in arrangements if one.fixture is not None]
        if not fixtures:
            return None
        return self._fixtures.setdefault(
            tuple(id(fixture) for fixture in fixtures), GroupFixture(fixtures, self._users)
        )

    def seat(self, options: Mapping[str, Any]) -> Seat:
        """The member's seat; no other member is opened for it."""
        return self.member(options[_MEMBER]).seat({key: value for key, value in options.items() if key != _MEMBER})

    def probes(self) -> Sequence[Probe]:
        """Those of all members, each knowing whose sensors it reads."""
        return [MemberProbe(self.identity(name), probe) for name in self.names for probe in self.member(name).probes()]

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """Set the controls of all members, and restore them all."""
        return self._applied([(name, self.member(name).apply(settings)) for name in self.names])

    @contextmanager
    def _applied(self, members: Sequence[tuple[str, AbstractContextManager[Sequence[str]]]]) -> Iterator[Sequence[str]]:
        sentences: list[str] = []
        with ExitStack() as restore:
            broken = [(name, restore.enter_context(controls)) for name, controls in members]
            # Filled when all are restored: what shows only at the end is known then.
            restore_first = restore.pop_all()
            try:
                yield sentences
            finally:
                restore_first.close()
                sentences += [f"{name}: {sentence}" for name, found in broken for sentence in found]

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings relative to the device as its first member takes them: members are compared at equal settings."""
        return self.member(None).absolute(settings)

    def free_memory_bytes(self) -> int:
        """Memory that all tenants can have together; cores share the machine's."""
        pools: dict[str, int] = {}
        for member in self.members:
            pool = "host" if member.kind == "cpu" else member.name
            pools[pool] = min(member.free_memory_bytes(), pools.get(pool, 1 << 62))
        return sum(pools.values())

    def least_free_bytes(self) -> int:
        """Memory that the tenants of the fullest member can have while all members are used."""
        least = min(member.free_memory_bytes() for member in self.members)
        return least // len(self.names) if self.kind == "cpu" else least

    @property
    def tenant_bytes(self) -> int:
        """That of its members."""
        return self.member(None).tenant_bytes

    def room(self, memory_bytes: int | None = None) -> Room:
        """That of its first member."""
        return self.member(None).room(memory_bytes)

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """Those on any member."""
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
        """Peak rates of one member."""
        return self.member(None).roofline(refresh=refresh)

    def remembered_roofline(self) -> Roofline | None:
        """The same if they were measured before; nothing is measured."""
        return self.member(None).remembered_roofline()

    def checkup(self) -> tuple[Finding, ...]:
        """What the members' doctors find; what all of them find is said once."""
        return tuple(dict.fromkeys(finding for member in self.members for finding in member.checkup()))


def described_together(described: Mapping[str, Mapping[str, Any]], identities: Mapping[str, str]) -> dict[str, Any]:
    """What the members have in common, and where each differs; both by the members' names."""
    first = next(iter(described.values()))
    common = {
        key: value
        for key, value in first.items()
        if all(key in one and one[key] == value for one in described.values())
    }
    members = [
        {_MEMBER: name, "identity": identities[name]} | {key: value for key, value in one.items() if key not in common}
        for name, one in described.items()
    ]
    return {**common, "members": members}


def _of_member(host: HostPlan, part: _Part) -> HostPlan:
    seats = tuple(
        replace(seat, tenant=part.tenants[seat.tenant], options={**seat.options, _MEMBER: part.member})
        for seat in host.seats
    )
    return replace(host, seats=seats)
