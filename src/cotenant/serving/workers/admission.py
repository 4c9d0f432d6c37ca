"""From a model to an engine with known costs: cuts placed by time, a typical request measured."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from cotenant.errors import ServingError
from cotenant.scheduling import BatchCurve, ChunkCost, Contract, RequestId, TenantCosts, some_batches
from cotenant.serving.workers.work import Call, ChunkEngine, ChunkProgress, Prompt
from cotenant.text import duration

if TYPE_CHECKING:
    from cotenant.serving.workers.recorded import GraphRecorder


# Measure a tenant's costs on the device within a second or two: chunks, the batch curve, decode steps.


@dataclass(frozen=True, slots=True)
class Effort:
    """Effort of the measurement: rounds of each kind, as time allows."""

    budget_s: float = 1.0
    """Per kind of measurement: back to back, spaced, by batch."""
    least: int = 5
    most: int = 60
    warm_up: int = 3
    gap_s: float = 0.02
    """Idle time before a spaced request."""


class _Stopwatch:
    """Runs requests through an engine and times each piece."""

    def __init__(
        self,
        engine: ChunkEngine,
        wait: Callable[[], None],
        effort: Effort,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._engine = engine
        self._wait = wait
        self._effort = effort
        self._clock = clock
        self._sleep = sleep
        self._names: Iterator[RequestId] = (f"measured {number}" for number in count())

    def stages(self, work: Call | Prompt, batch: int = 1) -> tuple[list[float], list[RequestId]]:
        """Seconds of each stage of a batch of equal requests; decoders stay loaded."""
        requests = [next(self._names) for _ in range(batch)]
        for request in requests:
            self._engine.take(request, work)
        times = []
        for stage in range(self._engine.stages):
            before = self._clock()
            progress = self._engine.run(requests, stage)
            self._wait()
            times.append(self._clock() - before)
            _refuse_failures(progress)
        return times, requests

    def steps(self, requests: Sequence[RequestId], number: int) -> float:
        """Seconds of a joint decode step of these requests."""
        before = self._clock()
        _refuse_failures(self._engine.step(requests, number))
        self._wait()
        return (self._clock() - before) / number

    def free(self, requests: Sequence[RequestId]) -> None:
        for request in requests:
            self._engine.free(request)

    def pause(self) -> None:
        """Idle, so that the next piece is spaced."""
        self._sleep(self._effort.gap_s)

    def rounds(self, most: int | None = None) -> Iterator[int]:
        """As many rounds as the budget allows, at least ``least`` and at most ``most``."""
        began = self._clock()
        for number in range(max(most or self._effort.most, self._effort.least)):
            if number >= self._effort.least and self._clock() - began > self._effort.budget_s:
                return
            yield number


def measure_costs(
    engine: ChunkEngine,
    work: Call | Prompt,
    *,
    largest: int = 1,
    wait: Callable[[], None] = lambda: None,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> TenantCosts:
    """Costs of requests like this one. Call in the engine's thread, with nothing else on the device.

    Args:
        engine: The tenant's engine.
        work: A typical request.
        largest: Maximum requests that run (for decoders: step) together.
        wait: Waits for the device to finish its work.
        effort: Effort of the measurement.
        clock: Returns seconds.
        sleep: Sleeps.

    Raises:
        ServingError: The request fails.
    """
    watch = _Stopwatch(engine, wait, effort, clock, sleep)
    decoder = isinstance(work, Prompt)
    probe: Call | Prompt = replace(work, stop=()) if isinstance(work, Prompt) else work
    for _ in range(effort.warm_up):
        watch.free(watch.stages(probe)[1])
    close: list[list[float]] = []
    for _ in watch.rounds():
        times, requests = watch.stages(probe)
        watch.free(requests)
        close.append(times)
    spaced: list[list[float]] = []
    for _ in watch.rounds(10):
        watch.pause()
        times, requests = watch.stages(probe)
        watch.free(requests)
        spaced.append(times)
    chunks = tuple(
        _cost(part, gap) for part, gap in zip(zip(*close, strict=True), zip(*spaced, strict=True), strict=True)
    )
    if not decoder:
        return TenantCosts(chunks, _curve(watch, lambda batch: _total(watch, probe, batch), largest))
    assert isinstance(work, Prompt)
    return _decoder(watch, work, chunks, largest)


def _decoder(watch: _Stopwatch, work: Prompt, chunks: tuple[ChunkCost, ...], largest: int) -> TenantCosts:
    steps = work.tokens - 1
    if steps < 1:
        return TenantCosts(chunks)
    long = replace(work, stop=(), tokens=1_000_000_000)  # it never ends by itself: take as many steps as needed

    def run(batch: int) -> list[float]:
        requests = watch.stages(long, batch)[1]
        times = [watch.steps(requests, 1) for _ in range(min(steps, 16))]
        watch.free(requests)
        return times[1:] or times  # the first forms the gang

    close = [time_s for _ in watch.rounds() for time_s in run(1)]
    requests = watch.stages(long)[1]
    spaced = []
    for _ in range(5):
        watch.pause()
        spaced.append(watch.steps(requests, 1))
    watch.free(requests)
    curve = _curve(watch, lambda batch: statistics.median(run(batch)), largest)
    return TenantCosts(chunks, step=_cost(close, spaced), step_curve=curve, steps=steps)


def _total(watch: _Stopwatch, work: Call | Prompt, batch: int) -> float:
    times, requests = watch.stages(work, batch)
    watch.free(requests)
    return sum(times)


def _curve(watch: _Stopwatch, cost: Callable[[int], float], largest: int) -> BatchCurve:
    """Sizes 1, 2, 4, ... and the largest, interleaved so that drift cancels; linear interpolation in between."""
    if largest <= 1:
        return BatchCurve()
    sizes = some_batches(largest)
    seen: dict[int, list[float]] = {size: [] for size in sizes}
    for size in sizes:
        cost(size)  # allocate buffers of a new shape once
    for _ in watch.rounds(20):
        alone = cost(1)
        for size in sizes:
            seen[size].append((cost(size) if size > 1 else alone) / alone)
    return BatchCurve.through({size: statistics.median(ratios) for size, ratios in seen.items()} | {1: 1.0})


def _cost(close: Sequence[float], spaced: Sequence[float]) -> ChunkCost:
    p50 = max(statistics.median(close), 1e-7)
    p90 = statistics.quantiles(close, n=10)[-1] if len(close) > 1 else p50
    return ChunkCost(p50, max(p50, p90), max(statistics.median(spaced), 1e-7))


def _refuse_failures(progress: ChunkProgress) -> None:
    for error in progress.failures.values():
        raise ServingError(
            f"The model fails on the sample request: {type(error).__name__}: {error}.",
            hint="Give a sample that the model can serve.",
        ) from error


# Reject objectives below the solo time of a request: everything would be refused without explanation.


def check_floor(contract: Contract, costs: TenantCosts) -> None:
    """Reject an objective that a request can't meet even alone on an idle device.

    Raises:
        ServingError: Names the floor, the solo time of a typical request.
    """
    floor_s = costs.spaced_s
    promised_s = contract.within_s(costs.steps)
    if promised_s < floor_s:
        raise ServingError(
            f"Tenant {contract.tenant} can't meet its objective of {duration(promised_s)}: "
            f"a request takes {duration(floor_s)} alone on this device.",
            hint=f"Raise the objective above {duration(floor_s)}; twice that leaves room for others.",
        )


@dataclass(frozen=True, slots=True)
class Admitted:
    """An engine and the costs of its typical request."""

    engine: ChunkEngine
    costs: TenantCosts


def admit(
    model: Callable[..., Any],
    sample: Call | Prompt,
    *,
    wait: Callable[[], None],
    largest: int = 1,
    chunk_s: float | None = None,
    effort: Effort | None = None,
    recorder: "GraphRecorder | None" = None,
) -> Admitted:
    """Cut and measure a model on the thread that will run it. A `Prompt` as the sample makes it a decoder.

    ``recorder``: run forward passes as graphs; decoders run as usual, since their caches grow.
    """
    engine = build_engine(model, sample, wait=wait, largest=largest, chunk_s=chunk_s, recorder=recorder)
    try:
        costs = measure_costs(engine, sample, largest=largest, wait=wait, effort=effort or Effort())
    except BaseException:
        engine.close()
        raise
    return Admitted(engine, costs)


def build_engine(
    model: Callable[..., Any],
    sample: Call | Prompt,
    *,
    wait: Callable[[], None],
    largest: int = 1,
    chunk_s: float | None = None,
    recorder: "GraphRecorder | None" = None,
) -> ChunkEngine:
    """The engine that suits a model, with its cuts placed by time."""
    from torch import nn

    from cotenant.serving.workers.chunking import CHUNK_S, Cuts, balanced_cuts
    from cotenant.serving.workers.decoder import DecoderEngine
    from cotenant.serving.workers.forward import ForwardEngine, WholeEngine
    from cotenant.serving.workers.recorded import RecordedSteps, Recordings

    cuts = None
    if isinstance(model, nn.Module):
        places = balanced_cuts(model, _typical(model, sample), wait=wait, chunk_s=chunk_s or CHUNK_S)
        cuts = Cuts(places) if places else None
    if isinstance(sample, Prompt):
        assert isinstance(model, nn.Module)
        steps = RecordedSteps(model, sample, recorder, largest=largest) if recorder else None
        return DecoderEngine(model, cuts, steps)
    recordings = Recordings(model, sample, recorder, largest=largest) if recorder else None
    if cuts is None and largest == 1 and recordings is None:
        return WholeEngine(model)
    return ForwardEngine(model, cuts, batches=largest > 1, recordings=recordings)


def _typical(model: Callable[..., Any], sample: Call | Prompt) -> Callable[[], Any]:
    if isinstance(sample, Call):
        return lambda: model(*sample.args, **sample.kwargs)
    import torch
    from torch import nn

    assert isinstance(model, nn.Module)
    ids = torch.tensor([sample.ids], device=next(model.parameters()).device)
    return lambda: model(input_ids=ids, logits_to_keep=1)
