"""A mix laid out on a GPU: its processes, their environment, and the verification."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.devices.cpu.core_sharing import other_cores, thread_environment
from cotenant.devices.cpu.cores import Cores, by_node, equal_blocks, physical_cores, usable_cores
from cotenant.devices.nvidia.nvml import GpuFacts, Instance
from cotenant.devices.nvidia.seat import GpuSeatOptions
from cotenant.devices.protocol import Fixture, HostPlan, SeatPlan, SeatReport
from cotenant.devices.single import wrong_processes
from cotenant.devices.tree import FileTree
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing, percent_of_sms
from cotenant.workloads.protocol import Dtype

NO_DAEMON = "/nonexistent/cotenant-without-mps"
"""Where tenants that must not use MPS look for its daemon, to keep them off a system-wide daemon."""

MANY_SMS = 1 << 16
"""No upper limit."""
NEARLY_ALL = 0.95


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """The GPU as sharing modes see it."""

    gpu: GpuFacts
    dtype: Dtype
    threads: int
    """Default number of CPU threads per tenant."""
    visible: str
    """UUID of the GPU, or of the MIG instance used in its place."""
    sms: int | None
    """SMs a tenant running alone should see."""
    flush_l2: bool = False
    torch_on_cpu: bool = False
    """True if torch doesn't use the GPU, so it can't report on it."""
    instance: bool = False
    """The device is a MIG instance."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a correctly placed tenant reports; None expects nothing."""

    uuid: str | None = None
    sms: tuple[int, int] | None = None
    """Minimum and maximum."""
    memory_bytes: int | None = None
    """Maximum."""


Proof = Callable[[Mapping[str, SeatReport]], list[str]]
"""A sentence for each mismatch, given the reports by tenant."""


@dataclass(slots=True)
class GpuArrangement:
    """A mix on a GPU under a sharing."""

    mode: str
    tenants: tuple[str, ...]
    plan: Callable[[], tuple[HostPlan, ...]]
    expected: Callable[[], tuple[Expected, ...]]
    fixture: Fixture | None = None
    proof: Proof = field(default=lambda _: [])
    servers: Callable[[Sequence[SeatReport]], list[str]] = field(default=lambda _: [])
    """A sentence for each tenant whose server is not in the driver's list for the GPU."""

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The processes to start."""
        return self.plan()

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """Check each tenant's device and process, and the mode's own proof."""
        by_name = {report.tenant: report for report in reports}
        sentences = [f"{name} did not report where it runs" for name in self.tenants if name not in by_name]
        for name, wanted in zip(self.tenants, self.expected(), strict=True):
            if name in by_name:
                sentences += _differences(name, wanted, by_name[name].observed)
        sentences += wrong_processes(self.mode, self.tenants, self.hosts, by_name)
        sentences += self.servers(reports)
        if self.fixture is not None and not self.fixture.stands():
            sentences.append(f"{self.fixture.name} is no longer set up")
        else:
            sentences += self.proof(by_name)
        return tuple(sentences)


def _differences(name: str, wanted: Expected, observed: Mapping[str, Any]) -> list[str]:
    sentences = []
    uuid, sms, memory = (observed.get(key) for key in ("uuid", "sms", "memory_bytes"))
    if wanted.uuid and uuid and uuid.lower() != wanted.uuid.lower():
        sentences.append(f"{name} runs on {uuid}, not on {wanted.uuid}")
    if wanted.sms and sms is not None and not wanted.sms[0] <= sms <= wanted.sms[1]:
        low, high = wanted.sms
        span = f"at least {low}" if high == MANY_SMS else str(low) if low == high else f"{low} to {high}"
        sentences.append(f"{name} sees {sms} SMs instead of {span}")
    if wanted.memory_bytes and memory is not None and memory > wanted.memory_bytes:
        sentences.append(f"{name} sees {memory / 2**30:.1f} GiB of memory, more than its share")
    return sentences


def host(
    place: GpuPlace, seats: Sequence[tuple[int, Tenant, GpuSeatOptions]], env: Mapping[str, str] | None = None
) -> HostPlan:
    """One process that sees only this GPU; ``env`` is what the mode adds."""
    everyone: GpuSeatOptions = {
        "kind": "cuda",
        "index": 0,  # the only GPU it sees
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
    """One process and its tenants."""
    plans = []
    for index, tenant, own in seats:
        options: GpuSeatOptions = {**everyone, **own, "threads": tenant.threads or everyone["threads"]}
        plans.append(SeatPlan(index, {**options}))
    threads = max(int(plan.options["threads"]) for plan in plans)
    return HostPlan(seats=tuple(plans), env={**thread_environment(threads), **env})


def on_instance(place: GpuPlace, instance: Instance) -> GpuPlace:
    """The same GPU, on a MIG instance."""
    return replace(place, visible=instance.uuid, sms=instance.sms or None)


def whole(place: GpuPlace) -> Expected:
    """Expect the entire device."""
    # Torch reports the parent of a MIG instance, so check the number of SMs there. The driver's library
    # counts cores, and cores per SM come from a table: slightly fewer SMs prove nothing.
    return Expected(
        uuid=place.visible if place.visible.startswith("GPU-") else None,
        sms=(int(place.sms * NEARLY_ALL), MANY_SMS) if place.sms else None,
    )


def ranks(tenants: Sequence[Tenant]) -> list[int]:
    """0 for the lowest priority in the mix, rising by 1 with each higher priority."""
    levels = sorted({tenant.priority for tenant in tenants})
    return [levels.index(tenant.priority) for tenant in tenants]


def shares_of(sharing: Sharing, tenants: Sequence[Tenant]) -> tuple[float | str, ...]:
    """The sharing's shares, or the tenants' own if all have some; empty if none. Raises SharingUnavailable."""
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
    """Shares as percentages of the SMs; empty if none. Raises SharingUnavailable."""
    found = tuple(percent_of_sms(share, sharing.mode) for share in shares_of(sharing, tenants))
    if disjoint and sum(found) > 100 + 1e-9:
        raise SharingUnavailable(
            f"the shares of `{sharing}` add up to {sum(found):g} %, but its parts can't overlap",
            hint="keep the sum at 100 or less",
        )
    return found


# --- blocks of the host's cores for tenants of a GPU: servers that compete for cores say nothing about the GPU


def in_core_blocks(found: GpuArrangement, tenants: Sequence[Tenant], tree: FileTree) -> None:
    """Give each tenant that asks for cores of its own a block, and verify it. Raises SharingUnavailable."""
    if len(tenants) < 2 or not any(tenant.own_cores for tenant in tenants):
        return
    blocks = equal_blocks(by_node(tree, physical_cores(tree, usable_cores(tree))), len(tenants))
    if not blocks:
        raise SharingUnavailable(
            f"there are fewer cores than the {len(tenants)} tenants with `own_cores`", hint="use fewer tenants"
        )
    cores = {tenant.name: block for tenant, block in zip(tenants, blocks, strict=True) if tenant.own_cores}
    plan, proof = found.plan, found.proof
    found.plan = lambda: tuple(_kept(host, found.tenants, cores) for host in plan())

    def verified(reports: Mapping[str, SeatReport]) -> list[str]:
        outside = [other_cores(name, cores[name], report.observed) for name, report in reports.items() if name in cores]
        return [*proof(reports), *(sentence for sentences in outside for sentence in sentences)]

    found.proof = verified


def _kept(host: HostPlan, names: Sequence[str], cores: Mapping[str, Cores]) -> HostPlan:
    """The same process on the cores of its tenants, with as many threads."""
    mine = sorted({core for seat in host.seats for core in cores.get(names[seat.tenant], ())})
    if not mine:
        return host
    seats = tuple(replace(seat, options={**seat.options, "cores": mine, "threads": len(mine)}) for seat in host.seats)
    return replace(host, seats=seats, env={**host.env, **thread_environment(len(mine))})
