"""Sharing modes of a CPU: assigns cores, processes and threads, and verifies the assignment."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from cotenant.devices.cpu.cores import Cores, format_cores
from cotenant.devices.protocol import Fixture, HostPlan, SeatPlan, SeatReport, SharingMode
from cotenant.devices.single import wrong_processes
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE

MEANINGS = {
    "processes": "one process per tenant on all cores, time-sliced by the operating system",
    "threads": "one process with a thread per tenant, on all cores",
    "pinned": "one process per tenant, each on dedicated cores",
    ALONE: "one tenant has all cores",
}


class CpuSeatOptions(TypedDict):
    """The settings a seat applies."""

    cores: list[int]
    threads: int
    clock: Literal["process", "thread"]
    """Whose CPU time counts as the tenant's device time."""


def sharing_modes(cores: Cores) -> tuple[SharingMode, ...]:
    """Every sharing mode of these cores, except `alone`, the baseline."""
    few = len(cores) < 2
    return (
        SharingMode("processes", MEANINGS["processes"]),
        SharingMode("threads", MEANINGS["threads"]),
        SharingMode(
            "pinned",
            MEANINGS["pinned"],
            available=not few,
            missing="a second core: tenants can't have dedicated cores on one core" if few else None,
            instead="processes" if few else None,
        ),
    )


def thread_environment(threads: int) -> dict[str, str]:
    """Environment in which every numeric library starts with this many threads and leaves affinity to us."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "NUMEXPR_NUM_THREADS": count,
        "RAYON_NUM_THREADS": count,
        "OMP_DYNAMIC": "false",
        "MKL_DYNAMIC": "false",
        # An inherited GOMP_CPU_AFFINITY or OMP_PLACES would move the workers off the cores that the seat chose.
        "OMP_PROC_BIND": "false",
        # Threads that spin while waiting take the cores from their neighbours, and a mix would measure
        # the spinning. The user's own choice is respected, and recorded either way.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
    }


@dataclass(slots=True)
class CpuArrangement:
    """A mix laid out on cores, without fixtures."""

    mode: str
    tenants: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    fixture: Fixture | None = None

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """One sentence for each way in which the cores are not shared as requested."""
        by_name = {report.tenant: report for report in reports}
        sentences = []
        for host in self.hosts:
            for seat in host.seats:
                name = self.tenants[seat.tenant]
                report = by_name.get(name)
                if report is None:
                    sentences.append(f"{name} did not report where it runs")
                else:
                    sentences.extend(_differences(name, seat.options, report.observed))
        sentences.extend(wrong_processes(self.mode, self.tenants, self.hosts, by_name))
        return tuple(sentences)


def _differences(name: str, wanted: Mapping[str, Any], observed: Mapping[str, Any]) -> list[str]:
    sentences = []
    sentences += other_cores(name, tuple(wanted["cores"]), observed)
    threads = observed.get("threads")
    if threads is not None and threads != wanted["threads"]:
        sentences.append(f"torch uses {threads} threads in {name}, not {wanted['threads']} as arranged")
    return sentences


def other_cores(name: str, cores: Cores, observed: Mapping[str, Any]) -> list[str]:
    """A sentence if a tenant's process or its server may run on other cores than these."""
    got = tuple(observed.get("cores") or ())
    if set(got) != set(cores):
        return [f"{name} may run on {_cores(got)}, not on {_cores(cores)} as arranged"]
    if outside := set(observed.get("process_cores") or ()) - set(cores):
        return [f"threads of {name}'s process may also run on {_cores(tuple(outside))}, outside its cores"]
    return []


def _cores(cores: Cores) -> str:
    if not cores:
        return "no known core"
    return f"{'cores' if len(cores) > 1 else 'core'} {format_cores(cores)}"


def arrange(physical: Sequence[Cores], sharing: Sharing, tenants: Sequence[Tenant]) -> CpuArrangement:
    """Lay a mix out on cores.

    Args:
        physical: The device's cores, hyper-threads of a physical core together.
        sharing: The mode; the shares of `pinned` are numbers of cores per tenant.
        tenants: The tenants of the mix.

    Raises:
        SharingUnavailable: These cores can't be shared that way by this mix.
    """
    everything = tuple(core for group in physical for core in group)
    names = tuple(tenant.name for tenant in tenants)
    if sharing.shares and sharing.mode != "pinned":
        raise SharingUnavailable(
            f"`{sharing.mode}` does not split a CPU, so it takes no shares ({sharing})",
            hint="write `pinned: [1, 1]` to give tenants dedicated cores",
        )
    hosts: tuple[HostPlan, ...]
    match sharing.mode:
        case "alone":
            if len(tenants) != 1:
                raise SharingUnavailable(
                    f"`alone` is for one tenant, and this mix has {len(tenants)}", hint="use `processes`"
                )
            hosts = (_host([(0, tenants[0], everything)]),)
        case "processes":
            hosts = tuple(_host([(i, tenant, everything)]) for i, tenant in enumerate(tenants))
        case "threads":
            hosts = (_host([(i, tenant, everything) for i, tenant in enumerate(tenants)]),)
        case "pinned":
            parts = _parts(physical, sharing, tenants)
            hosts = tuple(_host([(i, tenant, parts[i])]) for i, tenant in enumerate(tenants))
        case _:
            raise SharingUnavailable(
                f"`{sharing.mode}` is not available on a CPU",
                hint=f"use one of {', '.join(mode for mode in MEANINGS if mode != ALONE)}",
            )
    return CpuArrangement(sharing.mode, names, hosts)


def _host(seats: Sequence[tuple[int, Tenant, Cores]]) -> HostPlan:
    shared = len(seats) > 1
    plans = []
    for index, tenant, cores in seats:
        options = CpuSeatOptions(
            cores=sorted(cores), threads=tenant.threads or len(cores), clock="thread" if shared else "process"
        )
        plans.append((index, options))
    threads = max(options["threads"] for _, options in plans)
    return HostPlan(
        seats=tuple(SeatPlan(index, {**options}) for index, options in plans),
        env=thread_environment(threads),
        forked=True,
    )


def _parts(physical: Sequence[Cores], sharing: Sharing, tenants: Sequence[Tenant]) -> list[Cores]:
    """Disjoint cores for each tenant: as many as its share, or an even split."""
    cores = [core for group in physical for core in group]
    if len(cores) < len(tenants):
        raise SharingUnavailable(
            f"`pinned` needs a core for each tenant: {len(tenants)} tenants, {len(cores)} core{'s'[: len(cores) > 1]}",
            hint="use `processes`, or fewer tenants",
        )
    asked: tuple[float | str | None, ...] = sharing.shares or tuple(tenant.share for tenant in tenants)
    if all(share is None for share in asked):
        # Two hyper-threads of a core are not disjoint: split physical cores while there are enough.
        units = list(physical) if len(physical) >= len(tenants) else [(core,) for core in cores]
        return [tuple(core for unit in part for core in unit) for part in _evenly(units, len(tenants))]
    counts = [_core_count(share) for share in asked]
    if len(counts) != len(tenants):
        raise SharingUnavailable(
            f"`{sharing}` names {len(counts)} shares for {len(tenants)} tenants",
            hint="give each tenant a number of cores, or leave the shares out",
        )
    if sum(counts) > len(cores):
        raise SharingUnavailable(
            f"`{sharing}` asks for {sum(counts)} cores, but the device has {len(cores)}",
            hint="ask for fewer cores, or use `processes`",
        )
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [tuple(cores[start : start + count]) for start, count in zip(starts, counts, strict=True)]


def _core_count(share: float | str | None) -> int:
    try:
        count = float("nan") if share is None else float(share)
    except ValueError:
        count = float("nan")
    if not count.is_integer() or count < 1:
        raise SharingUnavailable(
            f"{share!r} is not a valid share of a pinned CPU",
            hint="a share is the number of cores of each tenant, e.g. `pinned: [1, 1]`",
        )
    return int(count)


def _evenly(units: Sequence[Cores], n: int) -> list[Sequence[Cores]]:
    """Split into consecutive parts of equal length; the first ones take the remainder."""
    each, over = divmod(len(units), n)
    ends = [each * (i + 1) + min(i + 1, over) for i in range(n)]
    return [units[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
