"""Tails of an engine's times: to the first token, per token, and of whole requests.

The same continuous batching as in `batching`, over tabulated times of steps. Compiled: tails need many requests, each
of which takes many steps. Neighbours enter as factors of the steps' times, taken from the event simulation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cotenant import extras
from cotenant.extras import compiled
from cotenant.prediction.engines.continuous_batching import (
    FREE,
    NO_STEP,
    PREEMPTIONS,
    BatchingState,
    EngineSettings,
    end_step,
    next_step,
    queue,
)
from cotenant.prediction.engines.engine_profile import EngineProfile
from cotenant.prediction.engines.step import StepTable
from cotenant.prediction.kernels.columns import Floats, Ints
from cotenant.scheduling.simulation import NEVER, WARM_UP, Replications

REPLICATIONS = 8
STEPS = 600_000
"""Of all replications."""
FEWEST_REQUESTS, MOST_REQUESTS = 150, 6000
"""Of a replication."""
_BUSY, _DEVICE, _SEQUENCES, _MOST_SEQUENCES, _CACHED, _MOST_CACHED, _STEPS, _TOKENS = range(8)


@dataclass(frozen=True, slots=True)
class EngineQueue:
    """An engine alone on its part of a device, and the size of its requests."""

    table: StepTable
    profile: EngineProfile
    settings: EngineSettings
    prompt: int
    output: int
    slower: float = 1.0
    """Time of kernels on this die over a typical die's."""
    least_ns: float = 0.0
    """Time in which the host launches a step's kernels, without captured graphs."""

    @property
    def held(self) -> int:
        """Requests whose tokens the cache holds at the same time."""
        settings = self.settings
        return max(settings.blocks // -(-(self.prompt + self.output) // settings.block_tokens), 1)

    def requests(self, together: float, steps: int = STEPS) -> int:
        """Of a replication, if as many steps are taken in all and this many requests usually run together."""
        needed = steps / REPLICATIONS / self.output * max(together, 1.0)
        return int(np.clip(needed, max(FEWEST_REQUESTS, 10 * together), MOST_REQUESTS))


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """What requests of an engine take, in seconds, and what it did meanwhile."""

    ttft: Replications
    tpot: Replications
    latency: Replications
    facts: Mapping[str, float]

    def of(self, metric: str) -> Replications:
        """`ttft`, `tpot` or `latency`."""
        return {"ttft": self.ttft, "tpot": self.tpot, "latency": self.latency}[metric]

    def stretched(self, factor: float) -> "EngineTimes":
        """All of them this many times as long."""
        ttft, tpot, latency = (
            Replications(tuple(each * factor for each in times.latencies_s))
            for times in (self.ttft, self.tpot, self.latency)
        )
        return EngineTimes(ttft, tpot, latency, self.facts)


NO_TIMES = EngineTimes(NEVER, NEVER, NEVER, {})
"""Of an engine that can't keep up."""


def engine_times(
    engine: EngineQueue,
    due_s: Callable[[int, float], Floats] | None,
    *,
    rate_rps: float = 0.0,
    in_flight: int = 0,
    stretch: Floats | None = None,
    together: float = 1.0,
    steps: int = STEPS,
    seed: int = 1,
) -> EngineTimes:
    """Serve replications of an open or a closed load.

    Args:
        engine: The engine.
        due_s: Arrivals by seed and horizon in seconds; None: closed.
        rate_rps: Requests per second of an open load.
        in_flight: Requests of a closed load.
        stretch: Factors of steps one after another, repeated: time beside neighbours over time alone.
        together: Requests that usually run together, about: the more, the more are simulated.
        steps: Of all replications, about.
        seed: Of the first replication.
    """
    extras.require("numba", "simulating an engine")
    replications: list[tuple[Floats, Floats, Floats]] = []
    facts = np.zeros(_TOKENS + 3)
    stretches = np.ones(1) if stretch is None else np.ascontiguousarray(stretch, np.float64)
    count = engine.requests(max(together, in_flight), steps)
    for number in range(REPLICATIONS):
        if due_s is not None:
            due = due_s(seed + number, count / rate_rps) * 1e9
            if due.size == 0:
                continue
        else:
            due = np.zeros(max(count, 3 * in_flight))
        rolled = np.roll(stretches, -37 * number)
        first, last, these = _replication(engine, due, 0 if due_s is not None else in_flight, rolled)
        facts += these
        done = np.flatnonzero(last > 0)
        done = done[int(done.size * WARM_UP) :]
        each = (last[done] - first[done]) / max(engine.output - 1, 1)
        seen = due[done] - engine.profile.request_us * 1e3  # a request is due before the engine sees it
        replications.append(((first[done] - seen) / 1e9, each / 1e9, (last[done] - seen) / 1e9))
    ttft, tpot, latency = (
        Replications(tuple(replication[column] for replication in replications)) for column in range(3)
    )
    return EngineTimes(ttft, tpot, latency, _facts(engine, facts, len(replications)))


def _replication(engine: EngineQueue, due: Floats, in_flight: int, stretch: Floats) -> tuple[Floats, Floats, Floats]:
    state = BatchingState.of(engine.settings, due.size)
    table, profile = engine.table, engine.profile
    first, last = np.zeros(due.size), np.zeros(due.size)
    facts = np.zeros(_TOKENS + 3)
    host = 1e3 * np.array([profile.step_us, profile.sequence_us, profile.prompt_us, profile.token_us])
    options = np.array([profile.hidden, engine.slower, engine.least_ns, table.captured, table.prompt_floor_ns])
    _serve(
        due, in_flight, engine.prompt, engine.output, engine.settings.prefix_hits, stretch, host, options,
        table.tokens, table.layers_ns, table.ends_ns, table.sequences, table.contexts, table.decoding_ns,
        table.queries, table.before, table.prompts_ns, state.requests, state.running, state.taken, state.waiting,
        state.counters, state.limits, state.queries, state.contexts, state.sampled, state.done, first, last, facts,
    )  # fmt: skip
    facts[-2] = state.counters[PREEMPTIONS]
    return first, last, facts


def _facts(engine: EngineQueue, sums: Floats, replications: int) -> dict[str, float]:
    """As those of `EngineTenant`, over all replications."""
    if not sums[_BUSY] > 0:
        return {}
    settings = engine.settings
    return {
        "sequences_per_step": float(sums[_SEQUENCES] / sums[_BUSY]),
        "most_sequences": float(sums[_MOST_SEQUENCES] / replications),
        "cache_used": float(sums[_CACHED] / sums[_BUSY]),
        "most_cache_used": float(sums[_MOST_CACHED] / replications),
        "cache_tokens": float(settings.blocks * settings.block_tokens),
        "preemptions": float(sums[-2]),
        "steps": float(sums[_STEPS]),
        "busy": float(sums[_BUSY] / sums[-1]),
        "device_busy": float(sums[_DEVICE] / sums[-1]),
        "tokens_per_s": float(sums[_TOKENS] / sums[-1] * 1e9),
    }


@compiled(numpy_errors=False)
def _between(grid: Floats, value: float) -> tuple[int, float]:
    """The grid's point below, and the weight of the next."""
    if value >= grid[-1]:
        return grid.size - 2, 1.0
    upper = max(int(np.searchsorted(grid, value)), 1)
    return upper - 1, max((value - grid[upper - 1]) / (grid[upper] - grid[upper - 1]), 0.0)


@compiled(numpy_errors=False)
def _on(grid: Floats, values: Floats, at: float) -> float:
    low, weight = _between(grid, at)
    return float(values[low] * (1 - weight) + values[low + 1] * weight)


@compiled(numpy_errors=False)
def _on_both(rows: Floats, columns: Floats, values: Floats, row: float, column: float) -> float:
    low, weight = _between(rows, row)
    left, part = _between(columns, column)
    lower = values[low, left] * (1 - part) + values[low, left + 1] * part
    upper = values[low + 1, left] * (1 - part) + values[low + 1, left + 1] * part
    return float(lower * (1 - weight) + upper * weight)


@compiled(numpy_errors=False)
def _serve(  # noqa: C901, PLR0912, PLR0915, PLR0917 - compiled code takes its arguments by position
    due: Floats, in_flight: int, prompt: int, output: int, hits: float, stretch: Floats, host: Floats, options: Floats,
    tokens: Floats, layers_ns: Floats, ends_ns: Floats, sequences: Floats, mean_contexts: Floats, decoding_ns: Floats,
    lengths: Floats, before: Floats, prompts_ns: Floats, requests: Ints, running: Ints, taken: Ints, waiting: Ints,
    counters: Ints, limits: Ints, queries: Floats, contexts: Floats, sampled: Ints, done: Ints, first: Floats,
    last: Floats, facts: Floats,
) -> None:  # fmt: skip
    """Fill in the times of the first and the last token of every request, and sums over steps."""
    hidden, slower, least_ns, captured, floor_ns = options
    came, now, step = 0, 0.0, 0
    blocks = counters[FREE]
    while came < min(in_flight, due.size):
        queue(requests, waiting, counters, prompt, output)
        came += 1
    while True:
        while in_flight == 0 and came < due.size and due[came] <= now:
            queue(requests, waiting, counters, prompt, output)
            came += 1
        decoding, total, prompts = next_step(
            requests, running, taken, waiting, counters, limits, hits, queries, contexts
        )
        if decoding == NO_STEP:
            if came >= due.size:
                break
            now = due[came]
            continue
        count = decoding
        attention = 0.0
        if decoding:
            attention = _on_both(sequences, mean_contexts, decoding_ns, float(decoding), total / decoding)
        if prompts:
            attention += floor_ns
            for number in range(prompts):
                attention += _on_both(lengths, before, prompts_ns, queries[number], contexts[number])
                count += int(queries[number])
        if count <= captured:
            layers = layers_ns[np.searchsorted(tokens, float(count))]
        else:
            layers = _on(tokens, layers_ns, float(count))
        device = max((layers + _on(tokens, ends_ns, float(decoding + prompts)) + attention) * slower, least_ns)
        spent = host[0] + host[1] * (decoding + prompts)
        if prompts:
            spent += host[2] + host[3] * (count - decoding)
        lasted = (device + spent - hidden * min(device, spent)) * stretch[step % stretch.size]
        now += lasted
        step += 1
        cached = 1.0 - counters[FREE] / blocks
        facts[_BUSY] += lasted
        facts[_DEVICE] += device
        facts[_SEQUENCES] += lasted * (decoding + prompts)
        facts[_MOST_SEQUENCES] = max(facts[_MOST_SEQUENCES], decoding + prompts)
        facts[_CACHED] += lasted * cached
        facts[_MOST_CACHED] = max(facts[_MOST_CACHED], cached)
        given, over = end_step(requests, running, taken, counters, sampled, done)
        facts[_TOKENS] += given
        for number in range(given):
            if first[sampled[number]] == 0.0:
                first[sampled[number]] = now
        for number in range(over):
            last[done[number]] = now
            if in_flight and came < due.size:
                due[came] = now
                queue(requests, waiting, counters, prompt, output)
                came += 1
    facts[_STEPS] = step
    facts[-1] = now


# --- An engine's times by load: simulated at a few loads on first use, interpolated between them
#
# If every step takes `s` times as long beside neighbours, `r` requests per second are to the engine what `s r` were
# alone, and all times are `s` times as long. So a single table over the rate serves for thousands of mixes.

LOADS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97)
"""Shares of the most that the engine keeps up with."""
LOAD_STEPS = 40_000
"""Simulated at each load."""

LONE_STEPS = 8_000
"""Simulated for one request at a time, which all take as long."""

Arrivals = Callable[[float, int, float], Floats]
"""Due times in seconds by rate, seed and horizon."""


@dataclass(slots=True)
class EngineLoads:
    """An engine on a part of a device."""

    engine: EngineQueue
    arrivals: Arrivals
    _capacity: float | None = None
    _idle: EngineTimes | None = None
    _times: dict[int, EngineTimes] = field(default_factory=dict)
    _quantiles: dict[tuple[str, float, int], float] = field(default_factory=dict)

    @property
    def capacity_rps(self) -> float:
        """Requests per second that it completes while more wait than it can take."""
        if self._capacity is None:
            engine = self.engine
            most = min(engine.settings.max_sequences, engine.held)
            saturated = engine_times(engine, None, in_flight=most + max(most // 4, 1), steps=LOAD_STEPS)
            self._capacity = saturated.facts["tokens_per_s"] / engine.output
        return self._capacity

    @property
    def idle(self) -> EngineTimes:
        """A request at a time."""
        if self._idle is None:
            self._idle = engine_times(self.engine, None, in_flight=1, steps=LONE_STEPS)
        return self._idle

    def times(self, number: int) -> EngineTimes:
        """Simulated at each of `LOADS`."""
        if number not in self._times:
            rate = self.capacity_rps * LOADS[number]
            together = self.engine.settings.max_sequences * LOADS[number] ** 2
            self._times[number] = engine_times(
                self.engine,
                lambda seed, horizon: self.arrivals(rate, seed, horizon),
                rate_rps=rate,
                together=together,
                steps=LOAD_STEPS,
            )
        return self._times[number]

    def quantile(self, metric: str, level: float, rate_rps: Floats, slowdown: Floats) -> Floats:
        """The level's quantile of `ttft`, `tpot` or `latency` in seconds; infinite if it can't keep up.

        Args:
            metric: Which time.
            level: For example 0.95.
            rate_rps: Requests per second.
            slowdown: Time of steps beside neighbours over time alone.
        """

        def at(number: int) -> float:
            key = metric, level, number
            if key not in self._quantiles:
                self._quantiles[key] = self.times(number).of(metric).quantile(level)[1]
            return self._quantiles[key]

        return self._between(at, rate_rps, slowdown) * slowdown

    def fact(self, name: str, rate_rps: Floats, slowdown: Floats) -> Floats:
        """A fact of the engine, such as its sequences per step, at these loads; infinite if it can't keep up."""
        return self._between(lambda number: self.times(number).facts[name], rate_rps, slowdown)

    def usual(self, rate_rps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Alone: shares of time with a step and with kernels, the load of the device, and sequences in progress.

        The load is above 1 where the engine can't keep up.
        """
        ones = np.ones_like(rate_rps)
        busy, device = (self.fact(name, rate_rps, ones) for name in ("busy", "device_busy"))
        load = rate_rps / self.capacity_rps
        full = self.times(len(LOADS) - 1).facts
        kernels = full["device_busy"] / full["busy"]
        stays = self.fact("sequences_per_step", rate_rps, ones) * np.where(np.isfinite(busy), busy, 1.0)
        return busy, device, load * kernels, stays

    def _between(self, at: Callable[[int], float], rate_rps: Floats, slowdown: Floats) -> Floats:
        """Interpolate the logarithm; beyond the last load it grows as queues do."""
        load = np.asarray(rate_rps * slowdown / self.capacity_rps, dtype=np.float64)
        grid = np.array(LOADS)
        upper = np.clip(np.searchsorted(grid, load), 1, grid.size - 1)
        needed = np.unique(np.concatenate([(upper - 1).ravel(), upper.ravel()])[np.tile((load < 1).ravel(), 2)])
        known = np.full(grid.size, np.nan)
        for number in needed:
            known[number] = np.log(max(at(int(number)), 1e-12))
        weight = np.clip((load - grid[upper - 1]) / (grid[upper] - grid[upper - 1]), 0.0, 1.0)
        logs = known[upper - 1] * (1 - weight) + known[upper] * weight
        beyond = np.log((1 - grid[-1]) / np.maximum(1 - np.maximum(load, grid[-1]), 1e-6))
        return np.where(load < 1, np.exp(logs + beyond), np.inf)
