"""Simulate tenants on a layout: set up the engine, run it, collect requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from cotenant import extras
from cotenant.prediction.contention import engine, state
from cotenant.prediction.contention.layout import Slicing
from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.kernels.columns import Floats, Ints

BUFFER_ROWS = 8192
NEVER_NS = 1e300

_SHORTEST_BLOCK_NS = 100.0
_MOST_ROUNDS = 1e4
_KERNELS, _SPANS, _HOSTS = 0, 2, 3
"""Positions in the engine's tables."""
_ANY = 0
"""Column of activity: share of the time in which any kernel runs."""


class Steps(Protocol):
    """A tenant that serves many requests in steps, such as a language-model engine; each step has its own kernels."""

    @property
    def most_kernels(self) -> int:
        """Kernels of the longest step."""
        ...

    @property
    def finished(self) -> bool:
        """Whether every request due in the window is done."""
        ...

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """The next step and when it can start; None if none will."""
        ...

    def end(self, now_ns: float, device_ns: float) -> None:
        """The step is over; its kernels took this time."""
        ...

    def requests(self) -> "Requests":
        """All requests that are done."""
        ...


@dataclass(frozen=True, slots=True)
class Player:
    """A simulated tenant: what it runs, when, and on which part of the device."""

    trace: Trace
    outstanding: int = 1
    """Requests in flight of a closed load; 0: ``arrivals_ns`` gives due times."""
    arrivals_ns: Ints | None = None
    sm_domain: int = 0
    dram_domain: int = 0
    sm_part: float = 1.0
    """Share of the device of its SM domain, for activity."""
    dram_part: float = 1.0
    shared_host: bool = False
    """A single host thread launches for all tenants with this flag."""
    priority: int = 0
    first_output: int = -1
    """Index of the kernel that completes the first output; -1 if that is the end."""
    steps: Steps | None = None
    """Serves in steps: they replace the trace, which only reserves room for the longest, and the load."""


@dataclass(frozen=True, slots=True)
class Requests:
    """A tenant's requests in order, nanoseconds from the start."""

    intended: Floats
    started: Floats
    first: Floats
    done: Floats
    device: Floats
    slot_ends: Floats
    """Requests x slots: host work before the kernels, each stage of kernels, host work after."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """What else is known of a tenant that serves in steps: sequences per step, use of its cache, preemptions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a simulated trial."""

    requests: tuple[Requests, ...]
    activity: Floats
    """Periods x `engine.ACTIVITIES`, mean shares of the device."""
    period_ns: float
    completions: int
    """Kernels completed."""
    end_ns: float
    finished: bool
    """Whether every request due in the window is done."""


def simulate(
    players: Sequence[Player],
    *,
    window_end_ns: float,
    deadline_ns: float | None = None,
    slicing: Slicing | None = None,
    host_spread: float = 0.0,
    seed: int = 0,
    period_ns: float = 1e8,
    record: bool = True,
) -> Outcome:
    """Simulate until every request due before the window's end is done, or the deadline.

    Args:
        players: The tenants.
        window_end_ns: Requests due later only serve as background load.
        deadline_ns: Stop here unconditionally; default: three windows.
        slicing: Time-slicing; None: side by side.
        host_spread: Relative standard deviation of host times between requests.
        seed: Seed of that spread. The same seed gives identical results.
        period_ns: Length of the periods over which activity is averaged.
        record: If False, requests are counted and discarded (for benchmarking the engine).
    """
    extras.require("numba", "simulating a device")
    deadline = 3 * window_end_ns if deadline_ns is None else deadline_ns
    run = partial(
        _simulate, window_end_ns=window_end_ns, deadline_ns=deadline, slicing=slicing, host_spread=host_spread,
        seed=seed, period_ns=period_ns, record=record,
    )  # fmt: skip
    if slicing is None and _apart(players):
        # Events of a group never concern another, and an event costs the time of a look at every tenant.
        return _together([run([player], first=index) for index, player in enumerate(players)])
    return run(players)


def _apart(players: Sequence[Player]) -> bool:
    """Whether no player shares SMs, memory or a host thread with another: MIG instances."""
    alone = not any(player.shared_host for player in players)
    sms, dram = ({getattr(player, name) for player in players} for name in ("sm_domain", "dram_domain"))
    return alone and len(players) > 1 and len(sms) == len(dram) == len(players)


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    """Join the outcomes of players that were simulated apart."""
    activity = np.zeros((max(len(outcome.activity) for outcome in outcomes), len(engine.ACTIVITIES)))
    idle = np.ones(len(activity))
    for outcome in outcomes:
        activity[: len(outcome.activity)] += outcome.activity
        idle[: len(outcome.activity)] *= 1 - outcome.activity[:, _ANY]
    activity[:, _ANY] = 1 - idle
    return Outcome(
        requests=tuple(requests for outcome in outcomes for requests in outcome.requests),
        activity=activity,
        period_ns=outcomes[0].period_ns,
        completions=sum(outcome.completions for outcome in outcomes),
        end_ns=max(outcome.end_ns for outcome in outcomes),
        finished=all(outcome.finished for outcome in outcomes),
    )


def _simulate(
    players: Sequence[Player],
    *,
    window_end_ns: float,
    deadline_ns: float,
    slicing: Slicing | None,
    host_spread: float,
    seed: int,
    period_ns: float,
    record: bool,
    first: int = 0,
) -> Outcome:
    tables = _tables(players)
    tenants = len(players)
    longest = max(player.outstanding for player in players)
    ints = np.zeros((tenants, 5), np.int64)
    floats = np.zeros((tenants, state.COLUMNS))
    floats[:, [state.SM_DOMAIN, state.DRAM_DOMAIN, state.PRIORITY, state.SM_PART, state.DRAM_PART]] = [
        [p.sm_domain, p.dram_domain, p.priority, p.sm_part, p.dram_part] for p in players
    ]
    due = np.array([_first_due(player) for player in players])
    floats[:, state.NEXT_NS] = floats[:, state.INTENDED_NS] = due
    ints[:, state.FINISHED] = due >= window_end_ns
    device = np.zeros(5)
    order = np.zeros(tenants + 1, np.int64)
    ring = np.zeros((tenants, max(longest, 1)))
    slots = max(int(player.trace.slot[-1]) for player in players) + 3
    slot_ends = np.zeros((tenants, slots))
    activity = np.zeros((int(deadline_ns / period_ns) + 1, len(engine.ACTIVITIES)))
    slices = slicing or Slicing(0.0, 0.0, 0.0)
    turns = (slices.slice_ns, slices.interrupt_ns, slices.yield_ns)
    options = np.array([*turns, host_spread, float(seed % 2**52), float(first)])
    limits = np.array([window_end_ns, deadline_ns, period_ns])
    stepped = [(tenant, player.steps) for tenant, player in enumerate(players) if player.steps is not None]
    buffered = 1 if stepped else BUFFER_ROWS + tenants  # the next step is known when the last is over
    out_ints = np.zeros((buffered, 2), np.int64)
    out_floats = np.zeros((buffered, 5 + slots))
    begins = tables[_SPANS][:, 0].copy()
    for tenant, steps in stepped:
        _begin_step(steps, (tenant, begins[tenant], 0.0), tables, ints, floats)
    parts: list[tuple[Ints, Floats]] = []
    why = engine.EMPTY_BUFFER if not ints[:, state.FINISHED].all() else engine.ALL_DONE
    while why == engine.EMPTY_BUFFER:
        written, why = engine.advance(
            *tables, options, limits, ints, floats, device, order, ring, slot_ends, activity, out_ints, out_floats
        )
        for tenant, steps in stepped:
            if written and out_ints[0, 0] == tenant:
                steps.end(float(out_floats[0, 3]), float(out_floats[0, 4]))
                now_ns = float(device[state.NOW_NS])
                _begin_step(steps, (tenant, begins[tenant], now_ns), tables, ints, floats)
                written = 0
        if why == engine.ALL_DONE and not ints[:, state.FINISHED].all():
            why = engine.EMPTY_BUFFER
        if record:
            parts.append((out_ints[:written].copy(), out_floats[:written].copy()))
    end = float(device[state.NOW_NS])
    used = int(np.ceil(end / period_ns))
    lengths = np.full(used, period_ns)
    if used:
        lengths[-1] = max(end - (used - 1) * period_ns, 1.0)
    return Outcome(
        requests=tuple(
            _requests(parts, tenant, slots) if player.steps is None else player.steps.requests()
            for tenant, player in enumerate(players)
        ),
        activity=activity[:used] / lengths[:, None],
        period_ns=period_ns,
        completions=int(device[state.COMPLETIONS]),
        end_ns=end,
        finished=why == engine.ALL_DONE,
    )


def _first_due(player: Player) -> float:
    if player.outstanding:
        return 0.0
    return float(player.arrivals_ns[0]) if player.arrivals_ns is not None and player.arrivals_ns.size else NEVER_NS


def _begin_step(
    steps: Steps, where: tuple[int, int, float], tables: tuple[np.ndarray, ...], ints: Ints, floats: Floats
) -> None:
    """Put the kernels of a tenant's next step, at its first row, in place of those of its last step."""
    tenant, begin, now_ns = where
    trace, start_ns = steps.begin(now_ns)
    if trace is not None:
        tables[_KERNELS][begin : begin + trace.duration_ns.size] = _columns(trace)
        tables[_SPANS][tenant, 1] = begin + trace.duration_ns.size
        tables[_HOSTS][tenant, :2] = trace.before_ns, trace.after_ns
    floats[tenant, state.NEXT_NS] = floats[tenant, state.INTENDED_NS] = start_ns if trace is not None else NEVER_NS
    ints[tenant, state.FINISHED] = steps.finished


def _tables(players: Sequence[Player]) -> tuple[np.ndarray, ...]:
    traces = [player.trace for player in players]
    kernels = np.concatenate([_columns(trace) for trace in traces])
    arrivals = [np.empty(0) if p.arrivals_ns is None else p.arrivals_ns.astype(np.float64) for p in players]
    return (
        kernels,
        np.concatenate([t.slot + 1 for t in traces]),
        _spans([t.duration_ns.size for t in traces]),
        np.array([[p.trace.before_ns, p.trace.after_ns, p.first_output] for p in players]),
        np.array([player.outstanding for player in players], np.int64),
        np.concatenate(arrivals),
        _spans([times.size for times in arrivals]),
        np.array([[p.sm_domain, p.dram_domain, int(p.shared_host), p.priority] for p in players], np.int64),
    )


def _columns(t: Trace) -> Floats:
    columns = (
        t.duration_ns, t.occupancy, t.dram, t.tensor, t.launch_ns, np.cumsum(t.launch_ns), t.block_ns, t.holds,
        t.waited, claims(t),
    )  # fmt: skip
    return np.stack(columns, axis=1).astype(np.float64)


def claims(trace: Trace) -> Floats:
    """By kernel, its weight in the assignment of SMs: its waves of thread blocks, each of which asks for a place.

    Kernels that wait for DRAM leave their SMs to others meanwhile, and claim less.
    """
    rounds = np.clip(trace.duration_ns / np.maximum(trace.block_ns, _SHORTEST_BLOCK_NS), 1.0, _MOST_ROUNDS)
    return np.asarray(rounds ** (1.0 - trace.dram))


def _spans(sizes: Sequence[int]) -> Ints:
    ends = np.cumsum(sizes, dtype=np.int64)
    return np.stack([ends - np.array(sizes, np.int64), ends], axis=1)


def _requests(parts: Sequence[tuple[Ints, Floats]], tenant: int, slots: int) -> Requests:
    mine = [floats[ints[:, 0] == tenant] for ints, floats in parts]
    rows = np.concatenate(mine) if mine else np.empty((0, 5 + slots))
    return Requests(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 5:])
