"""Blocks of the host's cores for tenants of a GPU: servers that compete for cores say nothing about the GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.devices.cpu.core_sharing import other_cores, thread_environment
from cotenant.devices.cpu.cores import Cores, by_node, equal_blocks, physical_cores, usable_cores
from cotenant.devices.nvidia.sharing.layout import GpuArrangement
from cotenant.devices.protocol import HostPlan, SeatReport
from cotenant.devices.tree import FileTree
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant


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
