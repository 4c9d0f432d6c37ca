"""Requests through an engine alone on its part of a device: when each token comes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from cotenant.prediction.engines.continuous_batching import Batching
from cotenant.prediction.engines.engine_profile import EngineProfile
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.kernels.columns import Floats, Ints

Lengths = Callable[[int], tuple[int, int]]
"""Tokens of prompt and of output, by number of the request."""


@dataclass(slots=True)
class EngineRecord:
    """What an engine did, in nanoseconds from the start."""

    intended: list[float] = field(default_factory=list)
    """By request, in order of arrival at the engine."""
    step_start: list[float] = field(default_factory=list)
    step_end: list[float] = field(default_factory=list)
    step_sequences: list[int] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)
    step_device: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    """Share of the cache in use, by step."""
    sampled: list[Ints] = field(default_factory=list)
    """Requests that got a token, by step."""
    done: list[Ints] = field(default_factory=list)
    """Requests that were completed, by step."""
    preemptions: int = 0

    def tokens(self) -> "EngineTokens":
        """Times of all tokens by request."""
        sizes = np.array([tokens.size for tokens in self.sampled], np.int64)
        requests = np.concatenate(self.sampled) if self.sampled else np.empty(0, np.int64)
        times = np.repeat(np.array(self.step_end), sizes)
        order = np.argsort(requests, kind="stable")
        finished = np.concatenate(self.done) if self.done else np.empty(0, np.int64)
        return EngineTokens(np.array(self.intended), requests[order], times[order], finished)


@dataclass(frozen=True, slots=True)
class EngineTokens:
    """Tokens by request."""

    intended: Floats
    request: Ints
    """Request of each token, in order."""
    time: Floats
    """End of the step that computed it."""
    finished: Ints
    """Requests that were completed."""

    def bounds(self) -> tuple[Floats, Floats, Ints]:
        """First and last token of each request, and the number of its tokens; NaN and 0 where there is none."""
        count = np.bincount(self.request, minlength=self.intended.size)
        first, last = np.full(self.intended.size, np.nan), np.full(self.intended.size, np.nan)
        ends = np.cumsum(count)
        some = count > 0
        first[some] = self.time[(ends - count)[some]]
        last[some] = self.time[(ends - 1)[some]]
        return first, last, count

    def between(self, after_ns: float = 0.0) -> Floats:
        """Times between consecutive tokens of a request, of tokens after this time."""
        same = self.request[1:] == self.request[:-1]
        late = self.time[1:] > after_ns
        return np.asarray(np.diff(self.time)[same & late])


def host_ns(profile: EngineProfile, step: StepShape, kernels: int = 0) -> float:
    """Host time of a step."""
    prompts = profile.prompt_us + profile.token_us * sum(step.queries) if step.queries else 0.0
    return (profile.step_us + profile.sequence_us * step.sequences + prompts + profile.eager_us * kernels) * 1e3


def step_ns(profile: EngineProfile, times: StepTimes, step: StepShape) -> tuple[float, float]:
    """Time of a step alone, and the device's part of it."""
    device = times.device_ns(step) * profile.device
    host = host_ns(profile, step)
    if not times.part.graphs:
        device = max(device, times.kernels * profile.eager_us * 1e3)
    return device + host - profile.hidden * min(device, host), device


def serve(
    batching: Batching,
    step_time: Callable[[StepShape], tuple[float, float]],
    lengths: Lengths,
    *,
    until_ns: float,
    arrivals_ns: Floats | None = None,
    in_flight: int = 1,
    delay_ns: float = 0.0,
    apart_ns: float = 0.0,
) -> EngineRecord:
    """Serve requests step by step.

    Args:
        batching: The engine's sequences.
        step_time: Time of a step, and the device's part of it.
        lengths: Lengths of each request.
        until_ns: No step starts later.
        arrivals_ns: Due times of an open load, sorted; None: closed.
        in_flight: Requests in flight of a closed load.
        delay_ns: Time from the end of a closed load's request until the engine sees the next.
        apart_ns: Time between requests of a closed load that start or end together: a server reads one after another,
            and an idle engine starts with the first.
    """
    record = EngineRecord()
    now = 0.0
    due_ns = list((np.arange(in_flight) * apart_ns if arrivals_ns is None else arrivals_ns).tolist())
    heapify(due_ns)

    def arrive(at: float) -> None:
        batching.arrive(*lengths(len(record.intended)))
        record.intended.append(at)

    while now < until_ns:
        while due_ns and due_ns[0] <= now:
            arrive(heappop(due_ns))
        step = batching.next_step()
        if step is None:
            if not due_ns:
                break
            now = due_ns[0]
            continue
        total, device = step_time(step)
        over = keep(record, batching, step, start=now, end=now + total, device=device)
        now += total
        if arrivals_ns is None:
            for number in range(over.size):
                heappush(due_ns, now + delay_ns + number * apart_ns)
    record.preemptions = batching.preemptions
    return record


def keep(record: EngineRecord, batching: Batching, step: StepShape, *, start: float, end: float, device: float) -> Ints:
    """Record a step that has ended; returns the requests that are done."""
    record.cached.append(batching.cached_share)
    sampled, over = batching.end_step()
    record.step_start.append(start)
    record.step_end.append(end)
    record.step_device.append(device)
    record.step_sequences.append(step.sequences)
    record.step_tokens.append(int(step.tokens))
    record.sampled.append(sampled)
    record.done.append(over)
    return over
