"""`scheduled` on a real device: `cotenant serve` orders the requests of a mix, and trials ask it as clients do.

What the server refuses because it can't be in time has no end, as in a simulated trial.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from cotenant import workloads
from cotenant.devices.protocol import Arrangement, Device, Fixture, HostPlan, SeatReport
from cotenant.errors import SharingUnavailable, WorkloadError
from cotenant.measure.gather import SeatOutcome
from cotenant.measure.tenants.reaper import VARIABLE as MARK
from cotenant.tenancy.document import write
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import MISSING_NS
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import SCHEDULED
from cotenant.workloads.models import ModelWorkload
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers import OPENAI, V2, ServerProcess, ServerSpec

REFUSED = ("http 429", "http 503")
"""Errors that say that a request can't be in time."""
SHAPED = ("batch", "seq", "dtype", "tf32", "channels_last", "mode", "tokens", "software", "weights", "params", "seed")
"""What the server has to know of a workload besides its name."""


def is_ordered(device: Device, sharing: Sharing) -> bool:
    """Whether trials with this sharing need a server: a simulated device computes its order."""
    return sharing.mode == SCHEDULED and not device.simulated


def arranged(device: Device, sharing: Sharing, tenants: Sequence[Tenant]) -> Arrangement:
    """A mix on a device; clients of a server are processes beside each other. Raises SharingUnavailable."""
    return device.arrange(Sharing(mode="processes") if is_ordered(device, sharing) else sharing, tenants)


class OrderingServer:
    """`cotenant serve` with the tenants of a mix: a fixture of the trials that ask it."""

    name = "cotenant serve"
    alone = False

    def __init__(self, device: str, tenants: Sequence[Tenant], mark: str) -> None:
        """Make one.

        Args:
            device: The device that it serves on.
            tenants: Its tenants.
            mark: Of the run's processes, by which those that outlive it are found.
        """
        self._device, self._tenants, self._mark = device, tuple(tenants), mark
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        """Start it. Raises SharingUnavailable."""
        with tempfile.TemporaryDirectory(prefix="cotenant-") as folder:
            path = Path(folder) / "tenants.yaml"
            served = {_model(tenant): _entry(tenant) for tenant in self._tenants}
            path.write_text(write({"device": self._device, "tenants": served}), encoding="utf-8")
            started = {"preset": "cotenant", "model": str(path), "env": {MARK: self._mark}}
            try:
                self._process = ServerProcess(ServerSpec.model_validate(started))
                self._process.wait_until_ready()
            except WorkloadError as error:
                self.__exit__()
                sentence = f"`cotenant serve` can't order the requests of {', '.join(served)}: {error.message}"
                raise SharingUnavailable(sentence, hint=error.hint) from None
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.stop()
        self._process = None

    def stands(self) -> bool:
        """True while it is up."""
        return self._process is not None and self._process.gone() is None

    @property
    def pids(self) -> tuple[int, ...]:
        """Its first process."""
        return () if self._process is None else (self._process.pid,)

    def asked(self, trial: Trial) -> Trial:
        """The trial with clients of the running server for tenants."""
        assert self._process is not None, "it is set up first"
        address = self._process.address.name
        clients = (
            tenant.model_copy(update={"workload": _client(tenant, address), "at_once": 1}) for tenant in trial.tenants
        )
        return trial.model_copy(update={"tenants": tuple(clients)})


@dataclass(slots=True)
class Ordered:
    """A mix whose tenants are clients of a server."""

    server: OrderingServer
    clients: Arrangement
    fixture: Fixture | None = field(init=False)

    def __post_init__(self) -> None:
        """The server is its fixture."""
        self.fixture = self.server

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The clients' processes."""
        return self.clients.hosts

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """A sentence if the server is gone, or a client isn't where it should be."""
        gone = () if self.server.stands() else ("the server that orders the requests has ended",)
        return (*gone, *self.clients.verify(reports))


def of_tenant(outcome: SeatOutcome, tenant: Tenant) -> SeatOutcome:
    """A client's outcome as that of the tenant it stands for; requests that were refused have no end."""
    requests, result = outcome.requests, outcome.result
    if requests is not None and result is not None and requests.answers:
        numbers = [number for number, kind in enumerate(result.kinds) if kind in REFUSED]
        refused = np.zeros(requests.done.size, bool)
        kinds = requests.answers["kind"]
        refused[: kinds.size] = np.isin(kinds, numbers)
        first, done, device = (
            np.where(refused, MISSING_NS, times) for times in (requests.first, requests.done, requests.device)
        )
        requests = replace(requests, first=first, done=done, device=device)
    return replace(outcome, tenant=tenant, requests=requests)


def _model(tenant: Tenant) -> str:
    """The tenant's name at the server; that of a copy has a character that names in files lack."""
    return tenant.name.replace("#", "-")


def _entry(tenant: Tenant) -> dict[str, Any]:
    """The tenant in the server's file."""
    spec = tenant.workload.model_dump(mode="json", include=set(SHAPED), exclude_defaults=True)
    own = tenant.model_dump(
        mode="json", include={"slo", "priority", "share", "hard", "best_effort"}, exclude_defaults=True
    )
    folder = Path(tenant.workload.name)
    name = os.fspath(folder.resolve()) if folder.is_dir() else tenant.workload.name
    return {"workload": name, **spec, "at_once": tenant.at_once, **own}


def _client(tenant: Tenant, address: str) -> WorkloadSpec:
    """The workload that asks the server for the tenant's requests."""
    spec, model = tenant.workload, _model(tenant)
    params: dict[str, Any]
    if spec.mode == "generate":
        params = {"model": model, "api": "completions"}
        return WorkloadSpec(name=f"{OPENAI}{address}", seq=spec.seq, tokens=spec.tokens, seed=spec.seed, params=params)
    workload = workloads.find(spec.name)
    params = {"model": model}
    if isinstance(workload, ModelWorkload):
        params |= workload.inputs_asked(spec)
    return WorkloadSpec(name=f"{V2}{address}", batch=spec.batch, seq=spec.seq, seed=spec.seed, params=params)
