"""A mix laid out on a GPU: which processes, in what environment, and whether it came out so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.devices.cpu.sharing import thread_environment
from cotenant.devices.nvidia.nvml import GpuFacts, Instance
from cotenant.devices.nvidia.seat import GpuSeatOptions
from cotenant.devices.protocol import Fixture, HostPlan, SeatPlan, SeatReport
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Sharing, Tenant
from cotenant.tenancy.shares import percent_of_sms
from cotenant.workloads.protocol import Dtype

NO_DAEMON = "/nonexistent/cotenant-without-mps"
"""Where tenants that must not be under MPS look for its daemon: a system-wide one would take them in unasked."""

MANY_SMS = 1 << 16
"""No limit from above."""
NEARLY_ALL = 0.95


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """The GPU as sharings see it."""

    gpu: GpuFacts
    dtype: Dtype
    threads: int
    """CPU threads of a tenant that doesn't say."""
    visible: str
    """UUID of the GPU, or of the MIG instance that stands for it."""
    sms: int | None
    """SMs that a tenant alone should see."""
    flush_l2: bool = False
    torch_on_cpu: bool = False
    """Nothing of torch reaches the GPU: what it would say of the GPU can't be asked for."""
    instance: bool = False
    """The device is a MIG instance."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a tenant must report if it was placed as asked. None: nothing is expected."""

    uuid: str | None = None
    sms: tuple[int, int] | None = None
    """At least and at most."""
    memory_bytes: int | None = None
    """At most."""


Proof = Callable[[Mapping[str, SeatReport]], list[str]]
"""Given the reports by tenant, a sentence for each thing that is not as asked."""


@dataclass(slots=True)
class GpuArrangement:
    """A mix on a GPU under one sharing."""

    mode: str
    tenants: tuple[str, ...]
    plan: Callable[[], tuple[HostPlan, ...]]
    expected: Callable[[], tuple[Expected, ...]]
    fixture: Fixture | None = None
    proof: Proof = field(default=lambda _: [])
    servers: Callable[[Sequence[SeatReport]], list[str]] = field(default=lambda _: [])
    """A sentence for each tenant whose server is not on the GPU, by the driver's list."""

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The processes to start."""
        return self.plan()

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """Where each tenant is, in which process, and what the sharing's own proof says."""
        by_name = {report.tenant: report for report in reports}
        sentences = [f"{name} did not say where it runs" for name in self.tenants if name not in by_name]
        for name, wanted in zip(self.tenants, self.expected(), strict=True):
            if name in by_name:
                sentences += _differences(name, wanted, by_name[name].observed)
        sentences += self._wrong_processes(by_name)
        sentences += self.servers(reports)
        if self.fixture is not None and not self.fixture.stands():
            sentences.append(f"{self.fixture.name} no longer stands")
        else:
            sentences += self.proof(by_name)
        return tuple(sentences)

    def _wrong_processes(self, by_name: Mapping[str, SeatReport]) -> list[str]:
        sentences = []
        first_in: dict[int, tuple[int, str]] = {}
        for number, host in enumerate(self.hosts):
            names = [name for seat in host.seats if (name := self.tenants[seat.tenant]) in by_name]
            if len({by_name[name].pid for name in names}) > 1:
                sentences.append(f"{' and '.join(names)} sit in several processes; `{self.mode}` wants them in one")
            for name in names:
                where, other = first_in.setdefault(by_name[name].pid, (number, name))
                if where != number:
                    sentences.append(f"{other} and {name} share a process; `{self.mode}` wants one each")
        return sentences


def _differences(name: str, wanted: Expected, observed: Mapping[str, Any]) -> list[str]:
    sentences = []
    uuid, sms, memory = (observed.get(key) for key in ("uuid", "sms", "memory_bytes"))
    if wanted.uuid and uuid and uuid.lower() != wanted.uuid.lower():
        sentences.append(f"{name} runs on {uuid}, not on {wanted.uuid}")
    if wanted.sms and sms is not None and not wanted.sms[0] <= sms <= wanted.sms[1]:
        low, high = wanted.sms
        span = f"at least {low}" if high == MANY_SMS else str(low) if low == high else f"{low} to {high}"
        sentences.append(f"{name} sees {sms} SMs, and was to have {span}")
    if wanted.memory_bytes and memory is not None and memory > wanted.memory_bytes:
        sentences.append(f"{name} sees {memory / 2**30:.1f} GiB of memory, more than its part has")
    return sentences


def host(
    place: GpuPlace, seats: Sequence[tuple[int, Tenant, GpuSeatOptions]], env: Mapping[str, str] | None = None
) -> HostPlan:
    """One process that sees the GPU and nothing else; ``env`` is what the sharing adds."""
    everyone: GpuSeatOptions = {
        "kind": "cuda",
        "index": 0,  # the only one it sees
        "threads": place.threads,
        "dtype": place.dtype,
        "flush_l2": place.flush_l2,
    }
    alone = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": place.visible,
        "CUDA_MPS_PIPE_DIRECTORY": NO_DAEMON,
    }
    return host_plan(everyone, seats, {**alone, **(env or {})})


def host_plan(
    everyone: GpuSeatOptions, seats: Sequence[tuple[int, Tenant, GpuSeatOptions]], env: Mapping[str, str]
) -> HostPlan:
    """One process and who sits in it."""
    plans = []
    for index, tenant, own in seats:
        options: GpuSeatOptions = {**everyone, **own, "threads": tenant.threads or everyone["threads"]}
        plans.append(SeatPlan(index, {**options}))
    threads = max(int(plan.options["threads"]) for plan in plans)
    return HostPlan(seats=tuple(plans), env={**thread_environment(threads), **env})


def on_instance(place: GpuPlace, instance: Instance) -> GpuPlace:
    """The same place, on a MIG instance."""
    return replace(place, visible=instance.uuid, sms=instance.sms or None)


def whole(place: GpuPlace) -> Expected:
    """All of the device."""
    # torch names the parent of a MIG instance, so there the number of SMs has to do.
    # The driver's library counts cores, and what makes up an SM is from a table: a little less proves nothing.
    return Expected(
        uuid=place.visible if place.visible.startswith("GPU-") else None,
        sms=(int(place.sms * NEARLY_ALL), MANY_SMS) if place.sms else None,
    )


def ranks(tenants: Sequence[Tenant]) -> list[int]:
    """0 for the lowest priority of the mix, one more for each higher one."""
    levels = sorted({tenant.priority for tenant in tenants})
    return [levels.index(tenant.priority) for tenant in tenants]


def shares_of(sharing: Sharing, tenants: Sequence[Tenant]) -> tuple[float | str, ...]:
    """The sharing's shares, or the tenants' own if all have one; empty: none were given. Raises SharingUnavailable."""
    if sharing.shares and len(sharing.shares) != len(tenants):
        raise SharingUnavailable(
            f"`{sharing}` names {len(sharing.shares)} shares for {len(tenants)} tenants",
            hint="give one share per tenant, or leave the shares out",
        )
    own = tuple(tenant.share for tenant in tenants if tenant.share is not None)
    if not sharing.shares and own and len(own) != len(tenants):
        raise SharingUnavailable(
            f"{len(own)} of {len(tenants)} tenants have a share under `{sharing.mode}`",
            hint="give each tenant a share, or none",
        )
    return sharing.shares or own


def percentages(sharing: Sharing, tenants: Sequence[Tenant], *, disjoint: bool) -> tuple[float, ...]:
    """Shares as percentages of the SMs; empty: none were given. Raises SharingUnavailable."""
    found = tuple(percent_of_sms(share, sharing.mode) for share in shares_of(sharing, tenants))
    if disjoint and sum(found) > 100 + 1e-9:
        raise SharingUnavailable(
            f"the shares of `{sharing}` add up to {sum(found):g} %, and its parts don't overlap",
            hint="let them add up to at most 100",
        )
    return found
