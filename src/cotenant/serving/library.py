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
    TenantAdded,
    TenantRemoved,
    TenantStanding,
    settle_shares,
)
from cotenant.scheduling import DeviceScheduler as Core
from cotenant.serving.conductor import Conductor
from cotenant.serving.tickets import Pending, TokenSink
from cotenant.serving.workers.admission import admit, check_floor
from cotenant.serving.workers.batches import rows_of
from cotenant.serving.workers.crew import Crew
from cotenant.serving.workers.place import GreenPart, find_place, find_recorder
from cotenant.serving.workers.station import Ended, Station
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt, prompt_of


class Scheduler:
    """Several models on one device, each with an objective.

    ::

        async with cotenant.Scheduler("cpu") as device:
            bert = device.admit(model, slo="30ms", share=0.4)
            y = await bert(x)

    Models run in the scheduler's own thread, in chunks between their layers, so that requests of other tenants can run
    in between. Don't call an admitted model yourself while the scheduler is open.

    Args:
        device: `cpu`, some cores (`cpu:0`, `cpu:0-1`) or `cuda:0`.
        fairness: `shares` (a tenant within its share meets its objective) or `equal` (all attain theirs equally often).
        threads: CPU threads per operator; None: torch's default.
        green: The shares of an NVIDIA GPU's SMs, in per cent, of all schedulers of this program that divide it, as in
            `green=(60, 40)`. Each then works on SMs of its own (a green context), at the same time as the others;
            `sms` is the number that the driver granted.
        part: Index of this scheduler's share.

    Raises:
        ServingError: ``part`` is not an index of ``green``, or the shares exceed the device.
    """

    def __init__(
        self,
        device: str = "cpu",
        *,
        fairness: str = "shares",
        threads: int | None = None,
        green: Sequence[float] | None = None,
        part: int = 0,
    ) -> None:
        if green is not None and (not 0 <= part < len(green) or min(green) <= 0 or sum(green) > 100):
            raise ServingError(
                f"Part {part} of the shares {', '.join(f'{share:g}' for share in green)} isn't a part of a GPU.",
                hint="Give shares in per cent that add up to at most 100, and the index of one of them.",
            )
        self._green = None if green is None else GreenPart(tuple(green), part)
        self._device = device
        self._threads = threads
        self._settings = Settings(fairness=Fairness(fairness))
        self._names = itertools.count(1)
        self._contracts: dict[str, Contract] = {}
        self._station: Station | None = None
        self._conductor: Conductor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._behind: Ended | None = None
        """The end of a chunk whose results were handed out, until it is counted."""

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        place = find_place(self._device, threads=self._threads, green=self._green)
        self.place = place
        self._station = Station(place, self._report, self._tell)
        self._conductor = Conductor(Core([], self._settings, now=time.monotonic()), Crew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        conductor, station = self._conductor, self._station
        self._conductor = self._station = None
        if conductor is not None:
            conductor.close(ServingError("The scheduler was closed before this request was served."))
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
        software: str = "eager",
    ) -> "Admission":
        """Admit a model as a tenant. Its costs are measured with its first request, or by `Admission.prepare`.

        Args:
            model: A `torch.nn.Module` or any function. A module is cut between its layers.
            slo: Time limit of a request: `"30ms"`, or seconds.
            share: Guaranteed fraction of the device's time; None: an equal part of the rest.
            name: Its name in refusals and metrics.
            batch: Maximum requests per batch, concatenated along the first dimension. For a decoder, maximum requests
                that step together.
            tokens: For a causal language model of transformers: tokens generated by a typical request. Calls then take
                and return token ids.
            hard: Refuse requests that can no longer be in time; False: serve them late, in idle time.
            best_effort: No share: idle time only.
            software: `graphs` replays forward passes as CUDA graphs, one per layer group and batch size, and decode
                steps, one per number of requests. Requests of other shapes than the first, prompts, and answers
                longer than the first run as with `eager`.

        Raises:
            SchedulingError: The objective or the share is invalid.
        """
        from cotenant.tenancy.values import read_duration

        name = name or f"{type(model).__name__.lower()}-{next(self._names)}"
        if name in self._contracts:
            raise ServingError(f"There is already a tenant {name}.", hint="Give each tenant its own name.")
        try:
            objective_s = read_duration(slo)
        except ValueError as error:
            raise ServingError(f"Tenant {name}: the objective: {error}.", hint='Say slo="30ms".') from None
        service = ServiceClass.BEST_EFFORT if best_effort else ServiceClass.GUARANTEED
        contract = Contract(name, objective_s, share, hard, service)
        settle_shares((*self._contracts.values(), contract))
        self._contracts[name] = contract
        return Admission(self, model, contract, batch=batch, tokens=tokens, software=software)

    @property
    def sms(self) -> int | None:
        """SMs granted by the driver to the scheduler's green context, while it is open."""
        return getattr(self.place, "sms", None) if self._station else None

    def standings(self) -> list[TenantStanding]:
        """Status of each tenant: account, backlog, recent attainment, cost of a request."""
        return self._at_work()[0].scheduler.standings(time.monotonic())

    def explain(self) -> list[str]:
        """The latest decisions as sentences, oldest first: every refusal, and a sample of the others."""
        return [decision.explain() for decision in self._at_work()[0].scheduler.decisions()]

    def _at_work(self) -> tuple[Conductor, Station]:
        if self._conductor is None or self._station is None:
            raise ServingError("The scheduler isn't open.", hint='Use it as `async with cotenant.Scheduler("cpu")`.')
        self._catch_up()
        return self._conductor, self._station

    def _report(self, end: Ended) -> None:
        """From the station's thread to the loop's."""
        assert self._loop is not None
        if self._conductor is not None:
            self._loop.call_soon_threadsafe(self._ended, end)

    def _tell(self, progress: ChunkProgress) -> None:
        """Tokens before the end of their chunk, from the station's thread to the loop's."""
        assert self._loop is not None
        conductor, at = self._conductor, time.monotonic()
        if conductor is not None:
            self._loop.call_soon_threadsafe(conductor.tokens_made, progress, at)

    def _ended(self, end: Ended) -> None:
        """A caller goes on with its result before what follows from it is counted and learnt."""
        self._catch_up()
        if self._conductor is None:
            return
        if end.progress.tokens or self._conductor.device_waits(end):  # a stream's tokens come before its end
            self._conductor.chunk_ended(end)
        else:
            self._conductor.hand_out(end)
            self._behind = end
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        end, self._behind = self._behind, None
        if end is not None and self._conductor is not None:
            self._conductor.chunk_ended(end)

    async def _install(self, admission: "Admission", sample: Call | Prompt) -> None:
        conductor, station = self._at_work()
        contract = admission.contract
        wait, recorder = self.place.wait, find_recorder(self.place, admission.software)
        admitted = await asyncio.wrap_future(
            station.call(lambda: admit(admission.model, sample, wait=wait, largest=admission.batch, recorder=recorder))
        )
        try:
            check_floor(contract, admitted.costs)
        except ServingError:
            self._contracts.pop(contract.tenant, None)
            admitted.engine.close()
            raise
        station.install(contract.tenant, admitted.engine)
        conductor.crew.assign(contract.tenant, station)
        conductor.tell(TenantAdded(time.monotonic(), contract, admitted.costs))
        admission.costs = admitted.costs

    def _remove(self, tenant: str) -> None:
        conductor, station = self._at_work()
        self._contracts.pop(tenant, None)
        conductor.tell(TenantRemoved(time.monotonic(), tenant))
        conductor.crew.dismiss(tenant)
        station.remove(tenant)


class Admission:
    """A tenant of a scheduler. Call it with the model's arguments and await the result."""

    def __init__(
        self,
        home: Scheduler,
        model: Callable[..., Any],
        contract: Contract,
        *,
        batch: int,
        tokens: int | None,
        software: str,
    ) -> None:
        from cotenant.scheduling import TenantCosts

        self.model = model
        self.contract = contract
        self.batch = batch
        self.software = software
        self.costs: TenantCosts | None = None
        self._home = home
        self._tokens = tokens
        self._sample_size = 1.0
        self._preparing = asyncio.Lock()

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Measure the costs of a request with these arguments; other tenants wait for a second or two.

        Raises:
            ServingError: The objective is below the solo time of the request, or the model fails on it.
        """
        async with self._preparing:
            if self.costs is None:
                sample = self._work(args, kwargs)
                self._sample_size = self._size(sample)
                await self._home._install(self, sample)  # noqa: SLF001 - the two halves of one thing

    async def __call__(self, *args: Any, deadline: float | None = None, priority: int = 0, **kwargs: Any) -> Any:
        """Serve a request.

        Args:
            args: The model's arguments; for a decoder, the token ids of one prompt as `generate` takes them: a list, a
                tensor of shape (n) or (1, n), or what a tokenizer returns, also as `input_ids=` and `attention_mask=`.
            deadline: Seconds after which the result is useless; it can only tighten the objective.
            priority: Higher goes first among this tenant's requests.
            kwargs: The model's keyword arguments; for a decoder `tokens` (or `max_new_tokens`), `stop` (token ids),
                `min_tokens`, `temperature`, `top_p`, `top_k`, `min_p`, `seed`, `logit_bias` and the penalties
                `repetition_penalty`, `presence_penalty` and `frequency_penalty`.

        Returns:
            The model's result. Its tensors are inference tensors: without gradients, and not to be changed in place
            outside `torch.inference_mode`; `clone` them for that. For a decoder, a list of the new tokens.

        Raises:
            Refused: It can't be served in time; states why, and when to retry.
            ServingError: The scheduler was closed before.
        """
        if self.costs is None:
            await self.prepare(*args, **kwargs)
        return await self._serve(self._work(args, kwargs), deadline=deadline, priority=priority)

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[int]:
        """The tokens of a decoder request, as they are generated."""
        made: asyncio.Queue[list[int] | None] = asyncio.Queue()
        if self.costs is None:
            await self.prepare(*args, **kwargs)
        serving = self._serve(self._work(args, {**kwargs, "streams": True}), sink=lambda new, _: made.put_nowait(new))
        serving.then(lambda _: made.put_nowait(None))
        try:
            while (tokens := await made.get()) is not None:
                for token in tokens:
                    yield token
            await serving
        finally:
            serving.cancel()

    def leave(self) -> None:
        """Remove the tenant; waiting requests are refused."""
        self._home._remove(self.contract.tenant)  # noqa: SLF001

    def _serve(
        self,
        work: Call | Prompt,
        *,
        deadline: float | None = None,
        priority: int = 0,
        sink: TokenSink | None = None,
    ) -> Pending[Any]:
        conductor, _ = self._home._at_work()  # noqa: SLF001
        steps = max(1, work.tokens - 1) if isinstance(work, Prompt) else None
        promised = self.contract.within_s(steps or 0)
        return conductor.serve(
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
        return prompt_of(args, kwargs, self._tokens)

    def _size(self, work: Call | Prompt) -> float:
        return float(len(work.ids) if isinstance(work, Prompt) else rows_of(work) or 1)
