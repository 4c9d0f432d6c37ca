"""What a tenant's requests cost the scheduler of a server on a simulated GPU."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from cotenant.prediction.contention.layout import Part, whole_of
from cotenant.prediction.engines.step import StepShape, prompt_step
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.prediction.simulated_gpu import UNCONTROLLED, Controls, SimulatedGpu
from cotenant.scheduling import BatchCurve, ChunkCost, TenantCosts, some_batches
from cotenant.workloads.protocol import WorkloadSpec

CHUNKS = 4
"""Parts of a request between which the server may turn to another tenant."""


class PartOfGpu(NamedTuple):
    """Where the requests run."""

    part: Part
    slowdown: float = 1.0
    """How much longer than alone on the entire GPU a request takes beside the tenants of other parts.

    A plan that was edited by hand may give a smaller part than it was predicted for: a request never takes less than
    alone on its part.
    """


def request_costs(
    gpu: SimulatedGpu,
    spec: WorkloadSpec,
    most: int,
    *,
    clock_of: Callable[[Part], float | None],
    controls: Controls = UNCONTROLLED,
    on: PartOfGpu | None = None,
) -> TenantCosts:
    """Costs of requests, up to so many at once.

    Args:
        gpu: The GPU.
        spec: A single request.
        most: Requests at once.
        clock_of: The clock of a part; None for that which costs assume.
        controls: Its other settings.
        on: None: the whole GPU, for which requests take turns.
    """
    whole = whole_of(gpu.gpu)

    def seconds(time_ns: Callable[[Part], float]) -> float:
        there = time_ns(whole)
        return (there if on is None else max(time_ns(on.part), there * on.slowdown)) / 1e9

    def request(size: int) -> RequestKernels:
        return gpu.request(spec.model_copy(update={"batch": size * spec.batch}))

    def alone_ns(size: int, part: Part, *, until_first: bool = False) -> float:
        trace = gpu.trace(request(size), part, controls, clock_mhz=clock_of(part))
        return trace.alone_ns(request(size).first_output + 1 if until_first else None)

    if gpu.served(spec):
        engine = gpu.engine_queue(spec, whole, clock_mhz=clock_of(whole))

        def step(shape: StepShape) -> float:
            return seconds(lambda part: gpu.engine_step(spec, part, shape, clock_mhz=clock_of(part)).alone_ns())

        sizes = some_batches(min(most, engine.held))
        context = engine.prompt + engine.output / 2
        prompt = step(prompt_step(engine.prompt, spec.prefix_hits))
        return _generating(prompt, {size: step(StepShape(size, size * context)) for size in sizes}, engine.output)
    sizes, outputs = some_batches(most), sum(stage == "decode" for stage in request(1).stages) + 1
    if outputs == 1 or gpu.family(spec) != "decoder":
        times = {size: seconds(partial(alone_ns, size)) for size in sizes}
        return TenantCosts((_cost(times[1] / CHUNKS),) * CHUNKS, BatchCurve.through(times))

    def further_ns(size: int, part: Part) -> float:
        return (alone_ns(size, part) - alone_ns(size, part, until_first=True)) / (outputs - 1)

    prompt = seconds(partial(alone_ns, 1, until_first=True))
    return _generating(prompt, {size: seconds(partial(further_ns, size)) for size in sizes}, outputs)


def _generating(prompt_s: float, steps_s: dict[int, float], outputs: int) -> TenantCosts:
    curve = BatchCurve.through(steps_s)
    return TenantCosts((_cost(prompt_s),), BatchCurve(), _cost(steps_s[1]), curve, max(1, outputs - 1))


def _cost(seconds: float) -> ChunkCost:
    return ChunkCost(seconds, seconds, seconds)
