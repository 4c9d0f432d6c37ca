"""The service behind all front ends: tenants, inference, generation, status."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cotenant.analyse.judged_promises import JudgedPromise
from cotenant.errors import BadInput, Refused
from cotenant.scheduling import Contract, TenantCosts, TenantPaused, TenantResumed, TenantStanding, Why
from cotenant.serving.backends.backend import Errand
from cotenant.serving.backends.probing import Passing
from cotenant.serving.codec import Codec
from cotenant.serving.conductor import Conductor
from cotenant.serving.measures import Measures
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tensors import Parcel, Signature
from cotenant.serving.tickets import Pending, TokenSink
from cotenant.serving.workers.work import Prompt
from cotenant.text import size

GENERATE_MOST = 4096
"""Maximum tokens of an answer."""


class Wishes(NamedTuple):
    """A client's deadline, and the priority among its own requests."""

    deadline_s: float | None = None
    per_step_s: float | None = None
    priority: int = 0

    def within(self, contract: Contract, steps: int) -> float | None:
        """The effective deadline: never later than the contract's; None: the contract's."""
        if self.deadline_s is None:
            return None
        asked = self.deadline_s + (self.per_step_s or 0.0) * steps
        return min(asked, contract.within_s(steps))


@dataclass(slots=True)
class ServedModel:
    """One tenant, as clients see it."""

    name: str
    contract: Contract
    costs: TenantCosts
    """Measured at the start."""
    signature: Signature
    codec: Codec | None
    tokens: int
    """Tokens of a typical answer; the default of a request."""
    key: str | None = None
    loaded: bool = True
    passing: Passing | None = None
    """The backend of its requests; None: served by our own worker."""


@dataclass(slots=True)
class Service:
    """The tenants of a device behind a conductor; those of each backend behind another."""

    conductor: Conductor
    device: str
    measures: Measures
    ready: Callable[[str], bool]
    workers: Callable[[], list[dict[str, Any]]] = list
    """Each worker process: its pid, tenants and restarts; each backend: its address."""
    basis: str = "measured"
    tenants: dict[str, ServedModel] = field(default_factory=dict)
    beside: dict[str, Conductor] = field(default_factory=dict)
    """Conductors of tenants in other lanes than the first of the device."""
    parts: list[Conductor] = field(default_factory=list)
    """The lanes of the device: one, or one for each part of it."""
    leaving: list[Conductor] = field(default_factory=list)
    """Replaced conductors that still have requests in flight."""
    admin_key: str | None = None
    file: TenantsFile | None = None
    """The tenants file, if any."""
    reload: Callable[[], Awaitable[dict[str, Any]]] | None = None
    """Reloads the file, if there is one."""
    grpc: str | None = None
    """Address of gRPC, if enabled."""
    page: bytes | None = None
    """The live page, if enabled."""
    record: Callable[[], dict[str, Any] | None] = lambda: None
    """State of the record of served traffic, if there is a record."""
    judged: Callable[[], tuple[JudgedPromise, ...]] = tuple
    """What was promised, and what came so far."""
    promises: Callable[[float], list[dict[str, Any]]] = lambda _: []
    """The same for `/status`, at a time of the monotonic clock."""
    draining: bool = False
    started: float = field(default_factory=time.monotonic)

    def conductors(self) -> list[Conductor]:
        """All conductors with tenants, the device's first."""
        return list(dict.fromkeys((self.conductor, *self.beside.values())))

    def conductor_of(self, name: str) -> Conductor:
        """The conductor of this tenant."""
        return self.beside.get(name, self.conductor)

    @property
    def busy_s(self) -> float:
        """Time that the device was busy; of its parts, their mean."""
        lanes = self.parts or [self.conductor]
        return sum(lane.device_s for lane in lanes) / len(lanes)

    @property
    def slowdown(self) -> float:
        """Ratio of the device's time to predictions now; of its parts, the largest."""
        return max(conductor.scheduler.speed for conductor in self.parts or [self.conductor])

    @property
    def in_flight(self) -> int:
        """Unanswered requests."""
        return sum(conductor.in_flight for conductor in (*self.conductors(), *self.leaving))

    def under_way(self) -> tuple[Counter[str], Counter[str]]:
        """Waiting and started requests, by tenant."""
        waiting: Counter[str] = Counter()
        begun: Counter[str] = Counter()
        for conductor in (*self.conductors(), *self.leaving):
            for tenant, has_begun in conductor.requests():
                (begun if has_begun else waiting)[tenant] += 1
        return waiting, begun

    def standings(self) -> list[TenantStanding]:
        """Status of each tenant with its scheduler; shares as fractions of 1."""
        now = time.monotonic()
        return [
            standing._replace(share_rate=standing.share_rate / conductor.scheduler.settings.slots)
            for conductor in self.conductors()
            for standing in conductor.scheduler.standings(now)
        ]

    def named(self, name: str) -> ServedModel:
        """A known, loaded tenant. Raises Refused."""
        model = self.tenants.get(name)
        if model is None or not model.loaded:
            raise Refused(name, Why.UNKNOWN_TENANT, retry_after_s=None, predicted_wait_s=0.0)
        return model

    def all_ready(self) -> bool:
        """Whether every loaded tenant can be served now."""
        return not self.draining and all(self.ready(model.name) for model in self.tenants.values() if model.loaded)

    def infer(self, name: str, parcel: Parcel, wishes: Wishes) -> Pending[Parcel]:
        """One pass of a model with tensors.

        Raises:
            BadInput: The model can't accept it.
            Refused: It was refused; also when it is awaited.
        """
        served = self.named(name)
        served.signature.check(parcel)
        return self._serve(served, parcel, wishes, scale=_scale(served.signature, parcel))

    def generate(self, name: str, prompt: Prompt, wishes: Wishes, sink: TokenSink | None = None) -> Pending[list[int]]:
        """Generate tokens for a prompt; ``sink`` receives them as they are generated.

        Raises:
            BadInput: The model can't read it.
            Refused: It was refused; also when it is awaited.
        """
        served = self.named(name)
        if not served.signature.decodes:
            raise BadInput(f"{name} doesn't generate text.", hint="Serve a decoder with `mode: generate`.")
        if not 0 < prompt.tokens <= GENERATE_MOST:
            raise BadInput(f"An answer has between 1 and {GENERATE_MOST} tokens, not {prompt.tokens}.")
        served.signature.check_prompt(prompt.ids, prompt.tokens)
        cache_bytes = (len(prompt.ids) + prompt.tokens) * served.signature.cache_bytes
        limit = self.conductor_of(name).scheduler.settings.cache_bytes
        if limit is not None and cache_bytes > limit:
            raise BadInput(
                f"A prompt of {len(prompt.ids)} and {prompt.tokens} new tokens need {size(cache_bytes)} of cache; "
                f"there are {size(limit)}.",
                hint="Ask for fewer tokens, or raise `cache_memory`.",
            )
        return self._serve(
            served,
            prompt,
            wishes,
            scale=len(prompt.ids) / served.signature.typical,
            steps=max(1, prompt.tokens - 1),
            cache_bytes=cache_bytes,
            sink=sink,
        )

    async def pass_on(
        self, served: ServedModel, errand: Errand, wishes: Wishes, *, letters: int = 1, tokens: int = 1
    ) -> Any:
        """Forward a request to a tenant's backend; returns its reply, whose pieces the errand has received.

        Args:
            served: The tenant.
            errand: The request.
            wishes: The client's deadline and priority.
            letters: Letters of its prompt.
            tokens: Maximum new tokens.

        Raises:
            Refused: It was refused, or the backend is down.
            RequestFailed: The backend closed the connection.
        """
        assert served.passing is not None
        due_s = served.contract.within_s(tokens - 1)
        return await self._serve(
            served,
            errand,
            wishes._replace(deadline_s=wishes.within(served.contract, tokens - 1) or due_s, per_step_s=None),
            scale=served.passing.scale(letters, tokens),
        )

    def _serve(
        self,
        served: ServedModel,
        work: Any,
        wishes: Wishes,
        *,
        scale: float,
        steps: int | None = None,
        cache_bytes: int | None = None,
        sink: TokenSink | None = None,
    ) -> Pending[Any]:
        if self.draining:
            raise Refused(served.name, "draining", retry_after_s=1.0, predicted_wait_s=0.0)
        deadline_s = wishes.deadline_s if served.passing else wishes.within(served.contract, steps or 0)
        return self.conductor_of(served.name).serve(
            served.name,
            work,
            deadline_s=deadline_s,
            priority=wishes.priority,
            scale=scale,
            steps=steps,
            cache_bytes=cache_bytes,
            sink=sink,
        )

    def load(self, name: str) -> None:
        """Load an unloaded tenant again."""
        self.tenants[name].loaded = True
        self.conductor_of(name).tell(TenantResumed(time.monotonic(), name))

    def unload(self, name: str) -> None:
        """Finish accepted requests, refuse new ones."""
        self.tenants[name].loaded = False
        self.conductor_of(name).tell(TenantPaused(time.monotonic(), name, drain=True))

    async def drain(self, within_s: float) -> bool:
        """Refuse new requests; True if everything was answered in time."""
        self.draining = True
        try:
            async with asyncio.timeout(within_s):
                for conductor in (*self.conductors(), *self.leaving):
                    await conductor.drained()
        except TimeoutError:
            return False
        return True


def _scale(signature: Signature, parcel: Parcel) -> float:
    """Cost of a request relative to the measured request, by its rows and tokens."""
    for tensor in parcel.tensors:
        if tensor.name == "input_ids":
            return tensor.rows * tensor.shape[1] / signature.typical
    return float(max((tensor.rows for tensor in parcel.tensors if tensor.name != "categories"), default=1))
