"""A simulated GPU behind the real front end: requests take simulated times, and answers are zeros, labelled as such."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cotenant.errors import BadInput
from cotenant.scheduling import BatchCurve, Chunk, ChunkCost, RequestId, TenantAdded, TenantCosts, some_batches
from cotenant.serving.conductor import Conductor
from cotenant.serving.tenants_file import ServedTenant, TenantsFile
from cotenant.serving.tensors import SIZES, Parcel, Signature, Tensor
from cotenant.serving.workers.admission import check_floor
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.work import ChunkProgress, Prompt, ScoredToken
from cotenant.workloads.protocol import WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice
    from cotenant.prediction.contention.layout import Part
    from cotenant.serving.device_setup import DividedDevice

CHUNKS = 4
"""Equal chunks of a request."""
ZERO_TOKEN = 72
"""The token of every answer: a letter in the byte tokenizer."""


async def open_simulated(
    file: TenantsFile, own: Mapping[str, Conductor], division: "DividedDevice | None" = None
) -> dict[str, tuple[TenantCosts, Signature]]:
    """Register tenants of a simulated GPU with their schedulers; returns costs and signatures.

    Args:
        file: The tenants file.
        own: The conductor of each tenant.
        division: The parts of the GPU; None: requests take turns on all of it.

    Raises:
        ServingError: An objective is below the solo time of a request.
    """
    from cotenant.devices.simulated.simulated_gpu import open_simulated as open_gpu

    gpu = open_gpu(file.device)
    workers = {conductor: SimulatedWorker(conductor) for conductor in own.values()}
    parts = _parts(list(own), division)
    known = {}
    for name, conductor in own.items():
        tenant, worker = file.tenants[name], workers[conductor]
        costs, signature = await asyncio.to_thread(_known, _Held(gpu, file.settings), tenant, parts[name])
        contract = tenant.contract(name)
        check_floor(contract, costs)
        known[name] = costs, signature
        worker.add(name, signature, costs)
        conductor.crew.assign(name, worker)
        conductor.tell(TenantAdded(time.monotonic(), contract, costs))
    return known


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
    from cotenant.devices.simulated.simulated_gpu import SimulatedArrangement

    if division is None:
        return dict.fromkeys(names)
    assert isinstance(division.arrangement, SimulatedArrangement)
    return dict(zip(names, division.arrangement.layout.parts, strict=True))


class _Held(NamedTuple):
    """A simulated GPU at the clock and power limit of a plan."""

    device: "SimulatedGpuDevice"
    settings: Mapping[str, Any]


def _known(gpu: _Held, tenant: ServedTenant, part: "Part | None") -> tuple[TenantCosts, Signature]:
    """Simulated costs, and the model's signature on the meta device."""
    from cotenant.serving.workers.servable import build_servable, with_cache

    spec = gpu.device.spec(tenant.spec())

    def times(**changes: Any) -> dict[int, float]:
        """By batch."""
        return {
            size: _request_s(
                gpu, spec.model_copy(update={"batch": size * spec.batch, **changes}), part, tenant.slowdown
            )
            for size in some_batches(tenant.most_at_once)
        }

    built = build_servable(spec, device="meta", dtype=gpu.device.default_dtype)
    signature = built.signature
    if isinstance(built.sample, Prompt) and gpu.device.served(spec):
        prompt, step = _steps(gpu, spec, part, tenant)
        steps = max(1, built.sample.tokens - 1)
        costs = TenantCosts((_cost(prompt),), BatchCurve(), _cost(step[1]), BatchCurve.through(step), steps)
    elif isinstance(built.sample, Prompt):
        prompt = _request_s(gpu, spec.model_copy(update={"mode": "prefill", "tokens": None}), part, tenant.slowdown)
        step = times(mode="decode", tokens=None)
        steps = max(1, built.sample.tokens - 1)
        costs = TenantCosts((_cost(prompt),), BatchCurve(), _cost(step[1]), BatchCurve.through(step), steps)
    else:
        whole = times()
        costs = TenantCosts((_cost(whole[1] / CHUNKS),) * CHUNKS, BatchCurve.through(whole))
    return with_cache(costs, built), signature


def _steps(gpu: _Held, spec: WorkloadSpec, part: "Part | None", tenant: ServedTenant) -> tuple[float, dict[int, float]]:
    """Seconds of a prompt in an idle engine, and of steps by number of sequences."""
    from cotenant.prediction.contention.layout import whole_of
    from cotenant.prediction.engines.step import StepShape

    device, whole = gpu.device, whole_of(gpu.device.gpu)
    locked = device.controls(gpu.settings).limits.clock_mhz
    clock = device.locked_clock(whole, locked)
    engine = device.engine_queue(spec, whole, clock_mhz=clock)

    def step_s(step: StepShape) -> float:
        """The plan's slowdown is relative to the entire GPU; a step never takes less than alone on its part."""
        alone = device.engine_step(spec, whole, step, clock_mhz=clock).alone_ns() / 1e9
        if part is None:
            return alone
        here = device.engine_step(spec, part, step, clock_mhz=device.locked_clock(part, locked))
        return max(here.alone_ns() / 1e9, alone * tenant.slowdown)

    context = engine.prompt + engine.output / 2
    sizes = some_batches(min(tenant.most_at_once, engine.held))
    prompt = step_s(StepShape(queries=(float(engine.prompt),), contexts=(0.0,)))
    return prompt, {size: step_s(StepShape(size, size * context)) for size in sizes}


def _request_s(gpu: _Held, spec: WorkloadSpec, part: "Part | None", slowdown: float) -> float:
    """Time of a request on its part of the GPU.

    The plan's slowdown is that beside its neighbours, relative to the entire GPU alone. A plan that was edited by hand
    may give a smaller part than it was predicted for: a request never takes less than alone on its part.
    """
    from cotenant.prediction.contention.layout import whole_of

    whole_s = _solo_s(gpu, spec, whole_of(gpu.device.gpu))
    return whole_s if part is None else max(_solo_s(gpu, spec, part), whole_s * slowdown)


def _solo_s(gpu: _Held, spec: WorkloadSpec, part: "Part") -> float:
    """Time of a request alone on a part of the GPU: the host launches, the device follows."""
    import numpy as np

    device, settings = gpu
    controls = device.controls(settings)
    clock = device.locked_clock(part, controls.limits.clock_mhz)
    trace = device.trace(device.request(spec), part, controls, clock_mhz=clock)
    launched = np.cumsum(trace.launch_ns)
    remaining = np.cumsum(trace.duration_ns[::-1])[::-1]
    return float(np.max(launched + remaining) + trace.before_ns + trace.after_ns) / 1e9


def _cost(seconds: float) -> ChunkCost:
    return ChunkCost(seconds, seconds, seconds)
