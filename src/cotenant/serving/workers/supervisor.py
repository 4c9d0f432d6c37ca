"""Keeps the workers of a device alive: starts, watches, and restarts them when they die or hang."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.errors import ServingError
from cotenant.scheduling import Contract, TenantAdded, TenantCosts, TenantPaused, TenantResumed
from cotenant.serving.conductor import Conductor
from cotenant.serving.tensors import Signature
from cotenant.serving.workers.admission import check_floor
from cotenant.serving.workers.remote import Remote
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.wire import WorkerOrder

log = logging.getLogger(__name__)

RESTARTS = 5
"""Restarts of each kind remembered, to say how long the next will take."""

Hire = Callable[[Callable[[Ended], None]], Awaitable[Remote]]
"""Finds the worker of a post in a process of several; reports of ended chunks go to the argument."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of workers."""

    start_s: float = 300.0
    hang_s: float = 10.0
    hang_times: float = 50.0
    """A chunk hangs after this many times its prediction, and at least ``hang_s``."""
    look_s: float = 0.25
    again_s: float = 0.1
    """Delay before the first restart; doubled for each failure, up to ``again_most_s``."""
    again_most_s: float = 30.0
    remeasure_s: float = 0.1
    """Time for remeasuring costs after a restart."""
    spare_s: float = 20.0
    """How long after a start a spare process is prepared for the next."""


class Post:
    """One worker's post: the process may change, the post stays."""

    def __init__(self, order: WorkerOrder) -> None:
        self.order = order
        self.worker: Remote | None = None
        self.restarts = 0
        self.start_s = 1.0
        """Duration of the first start: what a restart is expected to take while there was none."""
        self._lost_at = 0.0
        self._prepared = False
        self._restarts_s: dict[bool, deque[float]] = {kind: deque(maxlen=RESTARTS) for kind in (False, True)}
        """Seconds of the last restarts, by whether a prepared process was at hand: that saves most of the time."""

    def lost(self, now: float, *, prepared: bool = False) -> float:
        """Its worker is gone; returns how long a restart is expected to take.

        Args:
            now: The time.
            prepared: A process that has imported everything is at hand.
        """
        self.worker = None
        self.restarts += 1
        self._lost_at, self._prepared = now, prepared
        return self.restart_s

    def restarted(self, now: float) -> float:
        """It has a worker again; returns how long that took."""
        took_s = now - self._lost_at
        self._restarts_s[self._prepared].append(took_s)
        return took_s

    @property
    def restart_s(self) -> float:
        """What a restart takes here: the longest of the last few of its kind."""
        took_s: Iterable[float] = self._restarts_s[self._prepared] or (self.start_s,)
        return max(1.0, *took_s)

    @property
    def tenants(self) -> tuple[str, ...]:
        """Names of those it serves."""
        return tuple(tenant.name for tenant in self.order.tenants)


class Supervisor:
    """The posts of a device, or of a part of it.

    ``env`` is what a part adds to the environment of its process; ``hire``: its worker is a thread of a process that
    several parts share. ``replaced`` is called after each restart.
    """

    def __init__(
        self,
        conductor: Conductor,
        patience: Patience | None = None,
        measured: Mapping[str, tuple[TenantCosts, Signature]] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        hire: Hire | None = None,
        replaced: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.posts: list[Post] = []
        self.known: dict[str, tuple[TenantCosts, Signature]] = {}
        self._conductor = conductor
        self._env = env
        self._hire = hire
        self._replaced = replaced
        self._patience = patience or Patience()
        self._measured = dict(measured or {})
        """Costs measured earlier, when the device was less busy."""
        self._contracts: dict[str, Contract] = {}
        self._spare: Remote | None = None
        """A process without a model that has imported everything the tenants need."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    async def open(self, orders: Sequence[WorkerOrder], contracts: Sequence[Contract]) -> None:
        """Start workers one by one, so that each measures alone on the device.

        Raises:
            ServingError: A tenant can't be served, or its objective is below the solo time of a request.
        """
        for contract in contracts:
            self._contracts[contract.tenant] = contract
        for order in orders:
            post = Post(order)
            self.posts.append(post)
            await self._man(post, first=True)
        self._watch(self._look_out())
        if self._hire is None:
            self._watch(self._keep_a_spare())

    def agree(self, contracts: Iterable[Contract]) -> None:
        """New contracts for the same tenants, used at the next restart of a worker."""
        self._contracts.update({contract.tenant: contract for contract in contracts})

    def ready(self, tenant: str) -> bool:
        """Whether the tenant's worker is ready."""
        return any(tenant in post.tenants and post.worker is not None for post in self.posts)

    def describe(self) -> list[dict[str, Any]]:
        """Each worker: its process, tenants and restarts, and what a part of the device consists of."""
        return [
            {
                "pid": post.worker.pid if post.worker else None,
                "tenants": post.tenants,
                "restarts": post.restarts,
                **({"granted": granted(post.worker.observed)} if post.worker and post.worker.observed else {}),
            }
            for post in self.posts
        ]

    async def close(self) -> None:
        """End all workers."""
        self._closing = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for post in self.posts:
            if post.worker is not None:
                await post.worker.close()
        if self._spare is not None:
            await self._spare.close()

    async def _man(self, post: Post, *, first: bool) -> None:
        patience = self._patience
        again = not first or all(tenant in self._measured for tenant in post.tenants)
        order = post.order.model_copy(update={"budget_s": patience.remeasure_s}) if again else post.order
        began = time.monotonic()
        worker = self._take_spare() or await self._new()
        worker.lost = lambda gone: self._lost(post, gone)
        try:
            await worker.launch(order, within_s=patience.start_s)
            self._check(worker, floor=first)
        except BaseException:
            await worker.close()
            raise
        post.worker, now = worker, time.monotonic()
        if first:
            post.start_s = now - began
        for tenant, measured in worker.admitted.items():
            costs, signature = self._known_before(tenant, measured) if first else measured
            self.known[tenant] = costs, signature
            self._conductor.crew.assign(tenant, worker)
            self._conductor.tell(TenantAdded(now, self._contracts[tenant], costs))
            self._conductor.tell(TenantResumed(now, tenant))

    def _check(self, worker: Remote, *, floor: bool) -> None:
        for error in worker.failed.values():
            raise error
        for tenant, measured in worker.admitted.items() if floor else ():
            check_floor(self._contracts[tenant], self._known_before(tenant, measured)[0])

    def _known_before(self, tenant: str, measured: tuple[TenantCosts, Signature]) -> tuple[TenantCosts, Signature]:
        """Costs known before, unless the model's cuts changed."""
        before = self._measured.get(tenant)
        return before if before and len(before[0].chunks) == len(measured[0].chunks) else measured

    def _lost(self, post: Post, gone: Remote) -> None:
        if self._closing or post.worker is not gone:
            return
        log.warning("the worker of %s (process %s) died; restarting it", ", ".join(post.tenants), gone.pid)
        self._conductor.worker_lost(gone, post.tenants, post.lost(time.monotonic(), prepared=self._has_spare()))
        self._watch(self._restart(post, gone))

    async def _restart(self, post: Post, gone: Remote) -> None:
        await gone.close()
        delay = self._patience.again_s
        while not self._closing:
            await asyncio.sleep(delay)
            try:
                await self._man(post, first=False)
            except ServingError as error:
                delay = min(2 * delay, self._patience.again_most_s)
                log.warning("the worker of %s did not start: %s", ", ".join(post.tenants), error)
                now = time.monotonic()
                for tenant in post.tenants:
                    self._conductor.tell(TenantPaused(now, tenant, delay + post.restart_s))
            else:
                took_s = post.restarted(time.monotonic())
                log.warning("the worker of %s is back after %.1f s", ", ".join(post.tenants), took_s)
                if self._replaced is not None:
                    await self._replaced()
                return

    async def _new(self) -> Remote:
        ended = self._conductor.chunk_ended
        remote = Remote(ended=ended, env=self._env) if self._hire is None else await self._hire(ended)
        remote.told = self._conductor.tokens_made
        return remote

    def _has_spare(self) -> bool:
        return self._spare is not None and self._spare.alive

    def _take_spare(self) -> Remote | None:
        if not self._has_spare():
            return None
        spare, self._spare = self._spare, None
        return spare

    async def _keep_a_spare(self) -> None:
        """Importing torch and a model's library takes seconds; a restart shouldn't wait for that."""
        while True:
            await asyncio.sleep(self._patience.spare_s)
            if self._spare is not None and not self._spare.alive:
                gone, self._spare = self._spare, None
                await gone.close()
            if self._spare is None:
                self._spare = spare = await self._new()
                await spare.spawn()
                spare.prepare(tenant.workload for post in self.posts for tenant in post.order.tenants)

    async def _look_out(self) -> None:
        """Kill workers whose chunk never ends; the restart then happens as usual."""
        while True:
            await asyncio.sleep(self._patience.look_s)
            now = time.monotonic()
            for post in self.posts:
                worker = post.worker
                if worker is None or worker.running_since is None:
                    continue
                allowed = max(self._patience.hang_s, self._patience.hang_times * worker.expected_s)
                if now - worker.running_since > allowed:
                    log.warning("the worker of %s hangs; killing it", ", ".join(post.tenants))
                    worker.kill()

    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# What a worker was given of the device, as read back in its process.

PERCENT, VISIBLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES"


def granted(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Its SMs as the driver counts them, its MPS limit, its MIG instance; or its cores.

    Args:
        observed: The report of a seat.
    """
    set_to = observed.get("environment") or {}
    part = {
        "sms": observed.get("green_sms") or observed.get("sms"),
        "mps_percent": float(set_to[PERCENT]) if set_to.get(PERCENT) else None,
        "mig_instance": set_to[VISIBLE] if str(set_to.get(VISIBLE, "")).startswith("MIG-") else None,
        "cores": observed.get("cores"),
    }
    return {name: value for name, value in part.items() if value is not None}


def parts_of(workers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Each tenant's part in words, from the server's description of its workers."""
    return {
        name: in_words(worker["granted"]) for worker in workers if "granted" in worker for name in worker["tenants"]
    }


def in_words(part: Mapping[str, Any]) -> str:
    """A part in a few words: `64 SMs`."""
    if "sms" in part:
        return f"{part['sms']} SMs"
    if "mps_percent" in part:  # its worker has cores as well, but the part is one of the GPU
        return f"{part['mps_percent']:g} % of the SMs"
    if "cores" in part:
        cores = part["cores"]
        return f"core{'s'[: len(cores) > 1]} {', '.join(map(str, cores))}"
    return str(part.get("mig_instance", "its part of the device"))
