"""`mps`: a process per tenant, kernels run concurrently, with caps on the SMs if shares are given.

A client that can't find its daemon silently runs without MPS. So this is verified: the daemon is asked
who is attached and what its servers give at most, and the tenants how many SMs they see.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Self

from cotenant.devices.nvidia import tools
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.sharing.daemon import CONTROL, Daemon, private_directory
from cotenant.devices.nvidia.sharing.layout import (
    MANY_SMS,
    Expected,
    GpuArrangement,
    GpuPlace,
    host,
    percentages,
    ranks,
    whole,
)
from cotenant.devices.nvidia.sharing.leftovers import Undoing, leave
from cotenant.devices.protocol import SeatReport, SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

MEANING = "one process per tenant under a private daemon; kernels run concurrently, shares cap the SMs"
ROUNDING_SMS = 4
"""The driver rounds a share to what the hardware can cap; by how much is not documented for every GPU."""
NEXT_BEST = "processes"


class MpsFixture(Undoing):
    """A daemon for a GPU."""

    alone = False

    def __init__(self, place: GpuPlace) -> None:
        self.daemon = Daemon(private_directory(), place.visible)
        self.name = f"the MPS daemon of {place.gpu.label}"

    def __enter__(self) -> Self:
        """Start the daemon."""
        self._left = leave("mps", {"directory": str(self.daemon.directory), "gpu": self.daemon.gpu})
        why = self.daemon.start()
        if why is not None:
            self.__exit__()
            raise SharingUnavailable(
                f"{self.name} did not start: {why}",
                hint=f"use `{NEXT_BEST}`; `cotenant doctor` says what else may hold the GPU",
            )
        return self

    def stands(self) -> bool:
        """True if the daemon answers."""
        return self.daemon.answers()


def missing(place: GpuPlace) -> str | None:
    """The missing requirement; None if available."""
    if not tools.installed(CONTROL):
        return f"{CONTROL}, which comes with the driver"
    if place.gpu.compute_capability < (3, 5):
        return f"a GPU with MPS: {place.gpu.label} is too old"
    mode = compute_mode.read(place.gpu)
    if mode == compute_mode.PROHIBITED:
        return f"a compute mode that admits processes on {place.gpu.label} (it is `prohibited`)"
    return None


def available(place: GpuPlace) -> SharingMode:
    """True if a private daemon could run."""
    lacking = missing(place)
    return SharingMode(
        "mps", MEANING, available=lacking is None, missing=lacking, instead=None if lacking is None else NEXT_BEST
    )


def arrange(place: GpuPlace, fixture: MpsFixture, sharing: Sharing, tenants: Sequence[Tenant]) -> GpuArrangement:
    """Clients of the daemon, each with its cap and its priority."""
    shares = percentages(sharing, tenants, disjoint=False)
    if shares and place.gpu.compute_capability < (7, 0):
        raise SharingUnavailable(
            f"shares of `mps` need Volta or newer, and {place.gpu.label} is older", hint="leave the shares out"
        )
    order = ranks(tenants)
    hosts = []
    for index, tenant in enumerate(tenants):
        env = dict(fixture.daemon.env)
        if shares:
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{shares[index]:g}"
        if max(order) > 0:
            # 0 is normal, 1 below normal: MPS has only these.
            env["CUDA_MPS_CLIENT_PRIORITY"] = "0" if order[index] == max(order) else "1"
        hosts.append(host(place, [(index, tenant, {})], env))
    caps = dict(zip((tenant.name for tenant in tenants), shares, strict=bool(shares)))
    return GpuArrangement(
        mode="mps",
        tenants=tuple(tenant.name for tenant in tenants),
        plan=lambda: tuple(hosts),
        expected=lambda: tuple(_expected(place, caps.get(tenant.name)) for tenant in tenants),
        fixture=fixture,
        proof=lambda reports: [*unattached(fixture.daemon, reports), *_overruled(fixture.daemon, caps, reports)],
    )


def _expected(place: GpuPlace, share: float | None) -> Expected:
    everything = whole(place)
    if share is None or place.sms is None:
        return everything
    exact = place.sms * share / 100
    low, high = max(1, math.floor(exact) - ROUNDING_SMS), math.ceil(exact) + ROUNDING_SMS
    return Expected(uuid=everything.uuid, sms=(low, high if high < place.sms else MANY_SMS))


def unattached(daemon: Daemon, reports: Mapping[str, SeatReport]) -> list[str]:
    """Tenants unknown to the daemon, which therefore run without MPS."""
    attached = daemon.clients()
    sentences = []
    for name, report in reports.items():
        servers = set(report.observed.get("server_pids") or ())
        if not (servers or {report.pid}) & attached:
            who = f"the server of {name}" if servers else f"{name} (process {report.pid})"
            sentences.append(f"{who} is not attached to the MPS daemon, so it ran time-sliced")
    return sentences


def _overruled(daemon: Daemon, caps: Mapping[str, float], reports: Mapping[str, SeatReport]) -> list[str]:
    """Shares not in force: missing from the tenant's environment, or above what the server gives."""
    sentences = []
    limits = [limit for server in daemon.servers() if (limit := daemon.percentage(server)) is not None]
    for name, share in caps.items():
        if name not in reports:
            continue
        set_to = dict(reports[name].observed.get("environment") or {}).get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        if set_to is None or abs(float(set_to) - share) > 1e-6:
            sentences.append(
                f"{name} should have {share:g} % of the SMs, but its environment says {set_to or 'nothing'}"
            )
        elif limits and min(limits) + 1e-6 < share:
            sentences.append(f"{name} should have {share:g} % of the SMs, but the MPS server gives {min(limits):g} %")
    return sentences
