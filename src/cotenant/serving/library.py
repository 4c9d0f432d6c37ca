"""The scheduler inside your own program: admit models, then call them like async functions."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from cotenant.errors import ServingError
from cotenant.scheduling import (
    Contract,
    Fairness,
    ServiceClass,
    Settings,
    Standing,
    TenantAdded,
    TenantRemoved,
    settle_shares,
)
from cotenant.scheduling import Scheduler as Core
from cotenant.serving.admission import admit
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.conduct.crew import Crew
from cotenant.serving.costs import check_floor
from cotenant.serving.engines.protocol import Call, Prompt
from cotenant.serving.engines.rows import rows_of
from cotenant.serving.worker.place import find_place
from cotenant.serving.worker.station import Ended, Station


class Scheduler:
    """Several models on one device, each with an objective.

    ::

        async with cotenant.Scheduler("cpu") as device:
            bert = device.admit(model, slo="30ms", share=0.4)
            y = await bert(x)

    Models run in one thread of the scheduler's own, in chunks between their layers, so that requests of other tenants
    get in between. Don't call an admitted model yourself while the scheduler is open.

    Args:
        device: `cpu`, some cores (`cpu:0`, `cpu:0-1`) or `cuda:0`.
        fairness: `shares` (who keeps to its share keeps its objective) or `equal` (all attain theirs equally often).
        threads: CPU threads per operator; None: as many as torch takes.
    """

    def __init__(self, device: str = "cpu", *, fairness: str = "shares", threads: int | None = None) -> None:
        self._device = device
        self._threads = threads
        self._settings = Settings(fairness=Fairness(fairness))
        self._names = itertools.count(1)
        self._contracts: dict[str, Contract] = {}
        self._station: Station | None = None
        self._conductor: Conductor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        place = find_place(self._device, threads=self._threads)
        self.place = place
        self._station = Station(place, self._report)
        self._conductor = Conductor(Core([], self._settings, now=time.monotonic()), Crew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        conductor, station = self._conductor, self._station
        self._conductor = self._station = None
        if conductor is not None:
            conductor.close()
        if station is not None:
            await asyncio.to_thread(station.close)

    def admit(
        self,
        model: Callable[..., Any],
        *,
        slo: str | float,
        share: float | None = None,
        name: str | None = None,
        batch: int = 1,
        tokens: int | None = None,
        hard: bool = True,
        best_effort: bool = False,
    ) -> "Admission":
        """Take a model in as a tenant. What it costs is measured with its first request, or by `Admission.prepare`.

        Args:
            model: A `torch.nn.Module` or any function. A module is cut between its layers.
            slo: How long a request may take: `"30ms"`, or seconds.
            share: The part of the device's time that it can count on; None: an equal part of what is left.
            name: What to call it in refusals and figures.
            batch: How many requests may run as one; their tensors are put together along the first dimension. For a
                decoder, how many may step together.
            tokens: For a causal language model of transformers: how many tokens a typical request makes. Calls then
                take token ids and return token ids.
            hard: Refuse requests that can't be in time any more; False: serve them late, in idle time.
            best_effort: No share at all: slack only.

        Raises:
            SchedulingError: The objective or the share makes no sense.
        """
        from cotenant.study.values import read_duration

        name = name or f"{type(model).__name__.lower()}-{next(self._names)}"
        if name in self._contracts:
            raise ServingError(f"There already is a tenant {name}.", hint="Give each tenant its own name.")
        try:
            objective_s = read_duration(slo)
        except ValueError as error:
            raise ServingError(f"Tenant {name}: the objective isn't {error}.", hint='Say slo="30ms".') from None
        service = ServiceClass.BEST_EFFORT if best_effort else ServiceClass.GUARANTEED
        contract = Contract(name, objective_s, share, hard, service)
        settle_shares((*self._contracts.values(), contract))
        self._contracts[name] = contract
        return Admission(self, model, contract, batch=batch, tokens=tokens)

    def standings(self) -> list[Standing]:
        """How each tenant stands: account, backlog, attainment lately, cost of a request."""
        return self._at_work()[0].scheduler.standings(time.monotonic())

    def explain(self) -> list[str]:
        """The latest decisions as sentences, oldest first: every refusal, and a sample of the others."""
        return [decision.explain() for decision in self._at_work()[0].scheduler.decisions()]

    def _at_work(self) -> tuple[Conductor, Station]:
        if self._conductor is None or self._station is None:
            raise ServingError("The scheduler isn't open.", hint='Use it as `async with cotenant.Scheduler("cpu")`.')
        return self._conductor, self._station

    def _report(self, end: Ended) -> None:
        """From the station's thread to the loop's."""
        assert self._loop is not None
        if self._conductor is not None:
            self._loop.call_soon_threadsafe(self._ended, end)

    def _ended(self, end: Ended) -> None:
        if self._conductor is not None:
            self._conductor.chunk_ended(end)

    async def _install(self, admission: "Admission", sample: Call | Prompt) -> None:
        conductor, station = self._at_work()
        contract = admission.contract
        wait = self.place.wait
        found = await asyncio.wrap_future(
            station.call(lambda: admit(admission.model, sample, wait=wait, largest=admission.batch))
        )
        try:
            check_floor(contract, found.costs)
        except ServingError:
            self._contracts.pop(contract.tenant, None)
            found.engine.close()
            raise
        station.install(contract.tenant, found.engine)
        conductor.crew.assign(contract.tenant, station)
        conductor.tell(TenantAdded(time.monotonic(), contract, found.costs))
        admission.costs = found.costs

    def _remove(self, tenant: str) -> None:
        conductor, station = self._at_work()
        self._contracts.pop(tenant, None)
        conductor.tell(TenantRemoved(time.monotonic(), tenant))
        conductor.crew.dismiss(tenant)
        station.remove(tenant)


class Admission:
    """A tenant of a scheduler. Call it with what the model takes; await the result."""

    def __init__(
        self, home: Scheduler, model: Callable[..., Any], contract: Contract, *, batch: int, tokens: int | None
    ) -> None:
        from cotenant.scheduling import TenantCosts

        self.model = model
        self.contract = contract
        self.batch = batch
        self.costs: TenantCosts | None = None
        self._home = home
        self._tokens = tokens
        self._sample_size = 1.0
        self._preparing = asyncio.Lock()

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Measure what a request with these arguments costs; other tenants wait meanwhile, for a second or two.

        Raises:
            ServingError: The objective lies below what the request takes alone, or the model fails on it.
        """
        async with self._preparing:
            if self.costs is None:
                sample = self._work(args, kwargs)
                self._sample_size = self._size(sample)
                await self._home._install(self, sample)  # noqa: SLF001 - the two halves of one thing

    async def __call__(self, *args: Any, deadline: float | None = None, priority: int = 0, **kwargs: Any) -> Any:
        """Serve one request.

        Args:
            args: What the model takes; for a decoder the token ids, as a sequence of numbers.
            deadline: In how many seconds the result is of no use any more; it can only tighten the objective.
            priority: Higher goes first among this tenant's requests.
            kwargs: What the model takes; for a decoder `tokens`, `stop`, `temperature`, `top_p` and `seed`.

        Raises:
            Refused: It can't be served in time: why, and when to try again.
        """
        if self.costs is None:
            await self.prepare(*args, **kwargs)
        return await self._serve(self._work(args, kwargs), deadline=deadline, priority=priority)

    async def stream(self, ids: Sequence[int], **kwargs: Any) -> AsyncIterator[int]:
        """The tokens of one request to a decoder, as they are made."""
        made: asyncio.Queue[list[int] | None] = asyncio.Queue()
        if self.costs is None:
            await self.prepare(ids, **kwargs)
        serving = asyncio.ensure_future(self._serve(self._work((ids,), kwargs), sink=made.put_nowait))
        serving.add_done_callback(lambda _: made.put_nowait(None))
        try:
            while (tokens := await made.get()) is not None:
                for token in tokens:
                    yield token
            await serving
        finally:
            serving.cancel()

    def leave(self) -> None:
        """Stop being a tenant; requests that wait are refused."""
        self._home._remove(self.contract.tenant)  # noqa: SLF001

    async def _serve(
        self,
        work: Call | Prompt,
        *,
        deadline: float | None = None,
        priority: int = 0,
        sink: Callable[[list[int]], bool | None] | None = None,
    ) -> Any:
        conductor, _ = self._home._at_work()  # noqa: SLF001
        steps = max(1, work.tokens - 1) if isinstance(work, Prompt) else None
        promised = self.contract.within_s(steps or 0)
        return await conductor.serve(
            self.contract.tenant,
            work,
            deadline_s=None if deadline is None else min(deadline, promised),
            priority=priority,
            scale=self._size(work) / self._sample_size,
            steps=steps,
            sink=sink,
        )

    def _work(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | Prompt:
        if self._tokens is None:
            return Call(args, kwargs)
        (ids,) = args
        return Prompt(tuple(int(one) for one in ids), **{"tokens": self._tokens, **kwargs})

    def _size(self, work: Call | Prompt) -> float:
        return float(len(work.ids) if isinstance(work, Prompt) else rows_of(work) or 1)
