"""A simulated GPU behind the real front end: requests take simulated times, and answers are zeros, labelled as such."""

import _thread
import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cotenant.errors import BadInput, ServingError
from cotenant.scheduling import Chunk, RequestId, TenantAdded, TenantCosts
from cotenant.serving.conductor import Conductor
from cotenant.serving.tenants_file import ServedTenant, TenantsFile
from cotenant.serving.tensors import SIZES, Parcel, Signature, Tensor
from cotenant.serving.workers.admission import check_floor
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.work import ChunkProgress, Prompt, ScoredToken

if TYPE_CHECKING:
    from cotenant.devices.simulated import SimulatedGpuDevice
    from cotenant.prediction.contention import Part
    from cotenant.serving.device_setup import DividedDevice

T = TypeVar("T")

ZERO_TOKEN = 72
"""The token of every answer: a letter in the byte tokenizer."""


async def open_simulated(
    file: TenantsFile, own: Mapping[str, Conductor], division: "DividedDevice | None" = None, *, within_s: float
) -> dict[str, tuple[TenantCosts, Signature]]:
    """Register tenants of a simulated GPU with their schedulers; returns costs and signatures.

    Args:
        file: The tenants file.
        own: The conductor of each tenant.
        division: The parts of the GPU; None: requests take turns on all of it.
        within_s: How long the costs of a tenant may take.

    Raises:
        ServingError: An objective is below the solo time of a request, or its costs took too long.
    """
    from cotenant.devices.simulated import open_simulated as open_gpu

    gpu = open_gpu(file.device)
    workers = {conductor: SimulatedWorker(conductor) for conductor in own.values()}
    parts = _parts(list(own), division)
    known = {}
    for name, conductor in own.items():
        tenant, worker = file.tenants[name], workers[conductor]
        knowing = partial(_known, gpu, file.settings, tenant, parts[name])
        costs, signature = await _aside(knowing, f"The costs of {name}", within_s)
        contract = tenant.contract(name)
        check_floor(contract, costs)
        known[name] = costs, signature
        worker.add(name, signature, costs)
        conductor.crew.assign(name, worker)
        conductor.tell(TenantAdded(time.monotonic(), contract, costs))
    return known


async def _aside(work: Callable[[], T], what: str, within_s: float) -> T:
    """Call a function in a thread that holds up nothing if it never ends, not even the end of the process.

    `asyncio.to_thread` waits for ever for a function that raises StopIteration, and for a thread that died early.

    Raises:
        ServingError: It took too long.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the loop
            errors.append(error)
        with suppress(RuntimeError):  # the loop was closed: no one waits any longer
            loop.call_soon_threadsafe(ended.set)

    _thread.start_new_thread(call, ())
    try:
        await asyncio.wait_for(ended.wait(), within_s)
    except TimeoutError:
        raise ServingError(
            f"{what} weren't known within {within_s:.0f} s.", hint="Serve smaller models, or allow more time."
        ) from None
    for error in errors:
        raise error
    return results[0]


class SimulatedWorker:
    """A worker with a timer instead of a device."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._signatures: dict[str, Signature] = {}
        self._stages: dict[str, int] = {}
        self._work: dict[RequestId, Any] = {}
        self._made: dict[RequestId, int] = {}
        self._running: tuple[Chunk, float] | None = None
        self._queued: Chunk | None = None

    def add(self, tenant: str, signature: Signature, costs: TenantCosts) -> None:
        """Serve a tenant."""
        self._signatures[tenant] = signature
        self._stages[tenant] = len(costs.chunks)

    def take(self, request: RequestId, tenant: str, work: Any) -> None:
        """Keep a request."""
        del tenant
        self._work[request] = work
        self._made[request] = 0

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        for request in requests:
            self._work.pop(request, None)
            self._made.pop(request, None)

    def start(self, chunk: Chunk) -> None:
        """Wait for the chunk's time."""
        began = time.monotonic()
        self._running, self._queued = (chunk, began), None
        asyncio.get_running_loop().call_later(chunk.predicted_s, self._end)

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Run a chunk next."""
        if self._running is not None and self._running[0].version == after:
            self._queued = chunk

    def _end(self) -> None:
        assert self._running is not None
        (chunk, began), following = self._running, self._queued
        ended = began + chunk.predicted_s  # don't count the timer's delay as device time
        self._running = None
        progress = self._progress(chunk)
        if following is not None:
            self.start(following)
        started = following.version if following is not None else None
        self._conductor.chunk_ended(Ended(chunk.version, began, ended, started, progress))

    def _progress(self, chunk: Chunk) -> ChunkProgress:
        progress = ChunkProgress()
        last = chunk.stage == self._stages[chunk.tenant] - 1 and not chunk.steps
        for request in chunk.requests:
            work = self._work.get(request)
            if work is None:
                continue
            if isinstance(work, Prompt):
                self._write(request, work, chunk.steps or int(last), progress)
            elif last:
                self._answer(chunk.tenant, request, work, progress)
            if request in progress.results or request in progress.failures:
                self.free((request,))
        return progress

    def _write(self, request: RequestId, work: Prompt, new: int, progress: ChunkProgress) -> None:
        ends = min(work.tokens, work.min_tokens + 1) if ZERO_TOKEN in work.stop else work.tokens
        before = self._made[request]
        new = min(new, ends - before)
        self._made[request] += new
        progress.tokens[request] = [ZERO_TOKEN] * new
        if work.logprobs is not None:
            known = new + (len(work.ids) - 1 if work.prompt_logprobs and not before and new else 0)
            progress.scores[request] = [ScoredToken(0.0, ((ZERO_TOKEN, 0.0),) if work.logprobs else ())] * known
        if self._made[request] >= ends:
            progress.results[request] = [ZERO_TOKEN] * ends

    def _answer(self, tenant: str, request: RequestId, work: Parcel, progress: ChunkProgress) -> None:
        """Zeros, or the refusal that a real model would have answered with."""
        try:
            for tensor in work.tensors:
                if tensor.name == "input_ids":
                    self._signatures[tenant].check_ids(memoryview(tensor.data).cast("B").cast("q"))
        except BadInput as error:
            progress.failures[request] = error
        else:
            progress.results[request] = self._zeros(tenant, work)

    def _zeros(self, tenant: str, work: Parcel) -> Parcel:
        rows = work.tensors[0].rows
        tensors = []
        for spec in self._signatures[tenant].outputs:
            shape = (rows, *(max(size, 1) for size in spec.shape[1:]))
            count = rows
            for size in shape[1:]:
                count *= size
            tensors.append(Tensor(spec.name, spec.datatype, shape, bytes(count * SIZES[spec.datatype])))
        return Parcel(tuple(tensors))


def _parts(names: list[str], division: "DividedDevice | None") -> "dict[str, Part | None]":
    """Each tenant's part of the GPU; None: all of it."""
    from cotenant.devices.simulated import SimulatedArrangement

    if division is None:
        return dict.fromkeys(names)
    assert isinstance(division.arrangement, SimulatedArrangement)
    return dict(zip(names, division.arrangement.layout.parts, strict=True))


def _known(
    gpu: "SimulatedGpuDevice", settings: Mapping[str, Any], tenant: ServedTenant, part: "Part | None"
) -> tuple[TenantCosts, Signature]:
    """Simulated costs at the clock and power limit of a plan, and the model's signature on the meta device."""
    from cotenant.prediction.request_costs import PartOfGpu, request_costs
    from cotenant.serving.workers.servable import build_servable, with_cache

    spec = gpu.spec(tenant.spec())
    on = None if part is None else PartOfGpu(part, tenant.slowdown)
    controls = gpu.controls(settings)
    costs = request_costs(
        gpu,
        spec,
        tenant.most_at_once,
        clock_of=lambda part: gpu.locked_clock(part, controls.limits.clock_mhz),
        controls=controls,
        on=on,
    )
    built = build_servable(spec, device="meta", dtype=gpu.default_dtype)
    return with_cache(costs, built), built.signature
