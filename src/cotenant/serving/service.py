"""What the front ends offer, whatever their protocol: tenants, inference, generation, and how it all stands."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.errors import BadInput, Refused
from cotenant.scheduling import Contract, Standing, TenantCosts, TenantPaused, TenantResumed, Why
from cotenant.serving.backends.errand import Errand
from cotenant.serving.backends.probing import Passing
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.engines.protocol import Prompt
from cotenant.serving.measures import Measures
from cotenant.serving.models.signature import Signature
from cotenant.serving.models.text import Codec
from cotenant.serving.processes.parcel import Parcel, Tensor
from cotenant.serving.tenants_file import TenantsFile

GENERATE_MOST = 4096
"""Tokens of one answer, at most."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a client asks for: how long it waits, and which of its own requests go first."""

    deadline_s: float | None = None
    per_step_s: float | None = None
    priority: int = 0

    def within(self, contract: Contract, steps: int) -> float | None:
        """The deadline that counts: never later than the contract's; None: the contract's own."""
        if self.deadline_s is None:
            return None
        asked = self.deadline_s + (self.per_step_s or 0.0) * steps
        return min(asked, contract.within_s(steps))


@dataclass(slots=True)
class Served:
    """One tenant, as clients see it."""

    name: str
    contract: Contract
    costs: TenantCosts
    """As measured at the start."""
    signature: Signature
    codec: Codec | None
    tokens: int
    """Of a typical answer; what is made unless a client says otherwise."""
    key: str | None = None
    loaded: bool = True
    passing: Passing | None = None
    """Where its requests are passed on to; None: a worker of ours serves it."""


@dataclass(slots=True)
class Service:
    """The tenants of one device behind a conductor; those of each backend behind one of their own."""

    conductor: Conductor
    device: str
    measures: Measures
    ready: Callable[[str], bool]
    workers: Callable[[], list[dict[str, Any]]] = list
    """Each worker process: its pid, tenants and restarts; each backend: its address."""
    basis: str = "measured"
    tenants: dict[str, Served] = field(default_factory=dict)
    beside: dict[str, Conductor] = field(default_factory=dict)
    """The conductors of tenants that stand in another lane than the device's."""
    leaving: list[Conductor] = field(default_factory=list)
    """Conductors that were replaced and still have requests under way."""
    admin_key: str | None = None
    file: TenantsFile | None = None
    """What is served, where a file says so."""
    reload: Callable[[], Awaitable[dict[str, Any]]] | None = None
    """Reads the file again; None where there is no file."""
    grpc: str | None = None
    """Where gRPC listens, if it does."""
    page: bytes | None = None
    """The live page, if there is one."""
    draining: bool = False
    started: float = field(default_factory=time.monotonic)

    def conductors(self) -> list[Conductor]:
        """All that have tenants now, the device's first."""
        return list(dict.fromkeys((self.conductor, *self.beside.values())))

    def conductor_of(self, name: str) -> Conductor:
        """Whoever orders this tenant's requests."""
        return self.beside.get(name, self.conductor)

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        return sum(one.in_flight for one in (*self.conductors(), *self.leaving))

    def under_way(self) -> tuple[Counter[str], Counter[str]]:
        """Requests that wait for their first chunk, and those that have begun, by tenant."""
        waiting: Counter[str] = Counter()
        begun: Counter[str] = Counter()
        for one in (*self.conductors(), *self.leaving):
            for tenant, has_begun in one.requests():
                (begun if has_begun else waiting)[tenant] += 1
        return waiting, begun

    def standings(self) -> list[Standing]:
        """How each tenant stands with its scheduler; shares as parts of the whole."""
        now = time.monotonic()
        return [
            standing._replace(share_rate=standing.share_rate / one.scheduler.settings.slots)
            for one in self.conductors()
            for standing in one.scheduler.standings(now)
        ]

    def named(self, name: str) -> Served:
        """A tenant that is there and loaded. Raises Refused."""
        found = self.tenants.get(name)
        if found is None or not found.loaded:
            raise Refused(name, Why.UNKNOWN_TENANT, retry_after_s=None, predicted_wait_s=0.0)
        return found

    def all_ready(self) -> bool:
        """Whether every loaded tenant can be served now."""
        return not self.draining and all(self.ready(one.name) for one in self.tenants.values() if one.loaded)

    async def infer(self, name: str, parcel: Parcel, wishes: Wishes) -> Parcel:
        """One request with tensors.

        Raises:
            BadInput: The model can't take it.
            Refused: It was turned away.
        """
        served = self.named(name)
        served.signature.check(parcel)
        if served.signature.decodes:
            return await self._infer_tokens(served, parcel, wishes)
        result: Parcel = await self._serve(served, parcel, wishes, scale=_scale(served.signature, parcel))
        return result

    async def generate(
        self, name: str, prompt: Prompt, wishes: Wishes, sink: Callable[[list[int]], bool | None] | None = None
    ) -> list[int]:
        """New tokens for a prompt; ``sink`` gets them as they are made.

        Raises:
            BadInput: The model can't read it.
            Refused: It was turned away.
        """
        served = self.named(name)
        if not served.signature.decodes:
            raise BadInput(f"{name} doesn't generate text.", hint="Serve a decoder with `mode: generate`.")
        if not 0 < prompt.tokens <= GENERATE_MOST:
            raise BadInput(f"An answer has between 1 and {GENERATE_MOST} tokens, not {prompt.tokens}.")
        served.signature.check_prompt(prompt.ids, prompt.tokens)
        made: list[int] = await self._serve(
            served,
            prompt,
            wishes,
            scale=len(prompt.ids) / served.signature.typical,
            steps=max(1, prompt.tokens - 1),
            sink=sink,
        )
        return made

    async def pass_on(
        self, served: Served, errand: Errand, wishes: Wishes, *, letters: int = 1, tokens: int = 1
    ) -> Any:
        """One request to a tenant's backend; its answer, of which the errand has had every piece.

        Args:
            served: Whose request it is.
            errand: What to send.
            wishes: Of the client.
            letters: Of its prompt.
            tokens: That it may make.

        Raises:
            Refused: It was turned away, or the backend is down.
            RequestFailed: The backend broke off.
        """
        assert served.passing is not None
        due_s = served.contract.within_s(tokens - 1)
        return await self._serve(
            served,
            errand,
            replace(wishes, deadline_s=wishes.within(served.contract, tokens - 1) or due_s, per_step_s=None),
            scale=served.passing.scale(letters, tokens),
        )

    async def _serve(
        self,
        served: Served,
        work: Any,
        wishes: Wishes,
        *,
        scale: float,
        steps: int | None = None,
        sink: Callable[[list[int]], bool | None] | None = None,
    ) -> Any:
        if self.draining:
            raise Refused(served.name, "draining", retry_after_s=1.0, predicted_wait_s=0.0)
        deadline_s = wishes.deadline_s if served.passing else wishes.within(served.contract, steps or 0)
        return await self.conductor_of(served.name).serve(
            served.name,
            work,
            deadline_s=deadline_s,
            priority=wishes.priority,
            scale=scale,
            steps=steps,
            sink=sink,
        )

    async def _infer_tokens(self, served: Served, parcel: Parcel, wishes: Wishes) -> Parcel:
        ids = tuple(memoryview(parcel.tensors[0].data).cast("B").cast("q"))
        made = await self.generate(served.name, Prompt(ids, served.tokens), wishes)
        data = b"".join(token.to_bytes(8, "little", signed=True) for token in made)
        return Parcel((Tensor("tokens", "INT64", (1, len(made)), data),))

    def load(self, name: str) -> None:
        """Serve an unloaded tenant again."""
        self.tenants[name].loaded = True
        self.conductor_of(name).tell(TenantResumed(time.monotonic(), name))

    def unload(self, name: str) -> None:
        """Serve what was accepted, take nothing new."""
        self.tenants[name].loaded = False
        self.conductor_of(name).tell(TenantPaused(time.monotonic(), name, drain=True))

    async def drain(self, within_s: float) -> bool:
        """Take nothing new; True if everything was answered in time."""
        self.draining = True
        try:
            async with asyncio.timeout(within_s):
                for one in (*self.conductors(), *self.leaving):
                    await one.drained()
        except TimeoutError:
            return False
        return True


def _scale(signature: Signature, parcel: Parcel) -> float:
    """What a request costs over the one that was measured: by its rows and its tokens."""
    ids = next((one for one in parcel.tensors if one.name == "input_ids"), None)
    if ids is not None:
        return ids.rows * ids.shape[1] / signature.typical
    return float(max((one.rows for one in parcel.tensors if one.name != "categories"), default=1))
