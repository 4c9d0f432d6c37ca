"""Meanings of `alone` for servers: beside idle neighbours, with them stopped, or with all the device's memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from cotenant.tenancy.records import STOPPED_BLOCK, WHOLE_BLOCK, TenantObservation
from cotenant.text import percent

ALIKE = 0.05
"""Means are called alike if they differ by less than this, or by less than the trials before and after the run."""


@dataclass(frozen=True, slots=True)
class AloneThreeWays:
    """Mean latencies of one tenant of one run, ms."""

    of: str
    idle_ms: float
    """Within the blocks, beside neighbours that are loaded and idle."""
    stopped_ms: tuple[float, ...]
    """With the neighbours stopped: before the first block and after the last."""
    whole_ms: float | None
    """With the neighbours stopped and all of the device's memory."""
    doubtful: bool
    """Some of these trials were not valid."""


def three_ways(observations: Iterable[TenantObservation]) -> tuple[AloneThreeWays, ...]:
    """Every tenant that was measured with its neighbours stopped."""
    groups: dict[tuple[str, str], list[TenantObservation]] = {}
    for seen in observations:
        if seen.solo and seen.n:
            groups.setdefault((seen.run, seen.of), []).append(seen)
    found = []
    for (_, of), group in groups.items():
        around = sorted((one for one in group if one.block in {STOPPED_BLOCK, WHOLE_BLOCK}), key=lambda one: one.trial)
        idle = [_ms(one) for one in group if one.block >= 0]
        stopped = tuple(_ms(one) for one in around if one.block == STOPPED_BLOCK)
        whole = [_ms(one) for one in around if one.block == WHOLE_BLOCK]
        if idle and (stopped or whole):
            doubtful = any(one.verdict != "valid" for one in group)
            found.append(AloneThreeWays(of, fmean(idle), stopped, whole[0] if whole else None, doubtful))
    return tuple(found)


def alone_sentences(found: Sequence[AloneThreeWays]) -> list[str]:
    """The result of each way of being alone."""
    return [
        f"{sentence} (not all of these trials were valid)." if one.doubtful else f"{sentence}."
        for one in found
        for sentence in (_stopped(one), _whole(one))
        if sentence
    ]


def _stopped(one: AloneThreeWays) -> str:
    if not one.stopped_ms:
        return ""
    times = " before the run and ".join(f"{value:.3g} ms" for value in one.stopped_ms)
    after = " after it" if len(one.stopped_ms) > 1 else " before the run"
    change = one.idle_ms / fmean(one.stopped_ms) - 1
    verdict = (
        "idle neighbours cost it nothing measurable"
        if abs(change) <= max(ALIKE, _apart(one.stopped_ms))
        else f"{percent(abs(change))} {'more' if change > 0 else 'less'} beside idle neighbours"
    )
    idle = f"{one.of} alone takes {one.idle_ms:.3g} ms beside idle neighbours"
    return f"{idle}; with them stopped {times}{after}: {verdict}"


def _whole(one: AloneThreeWays) -> str:
    if one.whole_ms is None:
        return ""
    base = fmean(one.stopped_ms) if one.stopped_ms else one.idle_ms
    change = base / one.whole_ms - 1
    cost = (
        "the smaller share costs it nothing measurable"
        if abs(change) <= ALIKE
        else f"its share costs {percent(change)}"
    )
    return f"{one.of} alone with all of the device's memory takes {one.whole_ms:.3g} ms instead of {base:.3g}: {cost}"


def _apart(values: Sequence[float]) -> float:
    """Difference between the trials before and after the run: the drift of the machine itself."""
    return max(values) / min(values) - 1


def _ms(seen: TenantObservation) -> float:
    return seen.mean_latency_ns / 1e6
