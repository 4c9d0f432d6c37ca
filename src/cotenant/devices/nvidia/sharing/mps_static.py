"""`mps-static`: dedicated SMs for each tenant under MPS (static partitions); DRAM and L2 are shared."""

from collections.abc import Sequence
from typing import Self

from cotenant.devices.nvidia.sharing import mps
from cotenant.devices.nvidia.sharing.daemon import Daemon, private_directory
from cotenant.devices.nvidia.sharing.layout import Expected, GpuArrangement, GpuPlace, host, percentages
from cotenant.devices.nvidia.sharing.leftovers import Undoing, leave
from cotenant.devices.protocol import HostPlan, SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

MEANING = "one process per tenant under a private daemon, each with dedicated SMs"
FIRST_CAPABILITY = (8, 0)
FIRST_DRIVER = 580


class StaticFixture(Undoing):
    """A daemon with SM partitions."""

    alone = True

    def __init__(self, place: GpuPlace, chunks: tuple[int, ...]) -> None:
        self.daemon = Daemon(private_directory(), place.visible)
        self.name = f"the MPS daemon of {place.gpu.label} with {len(chunks)} partitions"
        self.partitions: tuple[str, ...] = ()
        self._chunks = chunks

    def __enter__(self) -> Self:
        """Start the daemon and create the partitions."""
        self._left = leave("mps", {"directory": str(self.daemon.directory), "gpu": self.daemon.gpu})
        why = self.daemon.start(static=True)
        made: list[str] = []
        for chunks in self._chunks if why is None else ():
            answer = self.daemon.ask(f"sm_partition add {self.daemon.gpu} {chunks}") or ""
            # Older daemons print the name alone, newer ones `Partition NAME created`.
            name = next((word for word in answer.split() if word.startswith(f"{self.daemon.gpu}/")), None)
            if name is None:
                why = f"a partition of {chunks} chunks was refused ({answer.strip() or 'no answer'})"
                break
            made.append(name)
        if why is not None:
            self.__exit__()
            raise SharingUnavailable(f"{self.name} could not be set up: {why}", hint="use `mps` with shares")
        self.partitions = tuple(made)
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop the daemon; its partitions go with it."""
        self.partitions = ()
        super().__exit__()

    def stands(self) -> bool:
        """True if the daemon answers and lists every partition."""
        listed = self.daemon.ask("lspart")
        return listed is not None and all(
            any(name.partition("/")[2].startswith(word) for word in listed.split() if len(word) >= 4)
            for name in self.partitions
        )


def chunk_sms(place: GpuPlace) -> int:
    """Number of SMs in a chunk."""
    return 8 if place.gpu.compute_capability >= (9, 0) else 4


def missing(place: GpuPlace) -> str | None:
    """The missing requirement; None if available."""
    lacking = mps.missing(place)
    if lacking is not None:
        return lacking
    if place.gpu.compute_capability < FIRST_CAPABILITY:
        return f"static partitions of MPS: {place.gpu.label} is older than Ampere"
    if int(place.gpu.driver.partition(".")[0] or 0) < FIRST_DRIVER:
        return f"static partitions of MPS: they need driver {FIRST_DRIVER} or newer, this is {place.gpu.driver}"
    return None


def available(place: GpuPlace) -> SharingMode:
    """True if the driver supports them."""
    lacking = missing(place)
    return SharingMode(
        "mps-static",
        MEANING,
        available=lacking is None,
        missing=lacking,
        instead=None if lacking is None else mps.available(place).instead or "mps",
    )


def chunks_of(place: GpuPlace, sharing: Sharing, tenants: Sequence[Tenant]) -> tuple[int, ...]:
    """Chunks for each tenant: its share rounded down, or an even split. Raises SharingUnavailable."""
    shares = percentages(sharing, tenants, disjoint=True) or (100 / len(tenants),) * len(tenants)
    if place.sms is None:
        raise SharingUnavailable(f"the driver does not say how many SMs {place.gpu.label} has", hint="use `mps`")
    size = chunk_sms(place)
    chunks = tuple(int(place.sms * share / 100 + 1e-9) // size for share in shares)
    if min(chunks) < 1:
        raise SharingUnavailable(
            f"`mps-static` divides {place.gpu.label} in chunks of {size} SMs, and {min(shares):.3g} % is less",
            hint="use fewer tenants, larger shares, or `mps`",
        )
    return chunks


def arrange(
    place: GpuPlace, fixture: StaticFixture, chunks: Sequence[int], tenants: Sequence[Tenant]
) -> GpuArrangement:
    """Each tenant in its partition."""
    size = chunk_sms(place)

    def plan() -> tuple[HostPlan, ...]:
        return tuple(
            host(
                place, [(index, tenant, {})], {**fixture.daemon.env, "CUDA_MPS_SM_PARTITION": fixture.partitions[index]}
            )
            for index, tenant in enumerate(tenants)
        )

    return GpuArrangement(
        mode="mps-static",
        tenants=tuple(tenant.name for tenant in tenants),
        plan=plan,
        expected=lambda: tuple(Expected(sms=((count - 1) * size + 1, (count + 1) * size - 1)) for count in chunks),
        fixture=fixture,
        proof=lambda reports: mps.unattached(fixture.daemon, reports),
    )
