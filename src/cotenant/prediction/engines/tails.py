"""Tails of an engine's times: to the first token, per token, and of whole requests.

The same continuous batching as in `batching`, over tabulated times of steps. Compiled: tails need many requests, each
of which takes many steps. Neighbours enter as factors of the steps' times, taken from the event simulation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
from cotenant.scheduling.simulation.lines import NEVER, WARM_UP, Replications

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
    """Time of kernels on this die over a typical one's."""
    least_ns: float = 0.0
    """Time in which the host launches a step's kernels, without captured graphs."""

    @property
    def held(self) -> int:
        """Requests whose tokens the cache holds at the same time."""
        settings = self.settings
        return max(settings.blocks // -(-(self.prompt + self.output) // settings.block_tokens), 1)

    def requests(self, together: float, steps: int = STEPS) -> int:
        """Of a replication, if as many steps are taken in all and this many requests usually run together."""
        wanted = steps / REPLICATIONS / self.output * max(together, 1.0)
        return int(np.clip(wanted, max(FEWEST_REQUESTS, 10 * together), MOST_REQUESTS))


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
        replications.append(((first[done] - due[done]) / 1e9, each / 1e9, (last[done] - due[done]) / 1e9))
    ttft, tpot, latency = (
        Replications(tuple(replication[place] for replication in replications)) for place in range(3)
    )
    return EngineTimes(ttft, tpot, latency, _facts(engine, facts, len(replications)))


def _replication(engine: EngineQueue, due: Floats, in_flight: int, stretch: Floats) -> tuple[Floats, Floats, Floats]:
    state = BatchingState.of(engine.settings, due.size)
    table, profile = engine.table, engine.profile
    first, last = np.zeros(due.size), np.zeros(due.size)
    facts = np.zeros(_TOKENS + 3)
    host = 1e3 * np.array([profile.step_us, profile.sequence_us, profile.prompt_us])
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
    """The grid's point below, and the weight of the next one."""
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
            for place in range(prompts):
                attention += _on_both(lengths, before, prompts_ns, queries[place], contexts[place])
                count += int(queries[place])
        if count <= captured:
            layers = layers_ns[np.searchsorted(tokens, float(count))]
        else:
            layers = _on(tokens, layers_ns, float(count))
        device = max((layers + _on(tokens, ends_ns, float(decoding + prompts)) + attention) * slower, least_ns)
        spent = host[0] + host[1] * (decoding + prompts) + (host[2] if prompts else 0.0)
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
        for place in range(given):
            if first[sampled[place]] == 0.0:
                first[sampled[place]] = now
        for place in range(over):
            last[done[place]] = now
            if in_flight and came < due.size:
                due[came] = now
                queue(requests, waiting, counters, prompt, output)
                came += 1
    facts[_STEPS] = step
    facts[-1] = now
