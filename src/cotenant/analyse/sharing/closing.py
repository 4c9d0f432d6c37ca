"""Findings of a run in sentences; recommendations are left to the decision."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.sharing.cells import Cell, settings_said, sharing_said
from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
from cotenant.tenancy.interval import Estimate, Number
from cotenant.tenancy.records import STOPPED_BLOCK, WHOLE_BLOCK, TenantObservation
from cotenant.text import amount, duration, in_time, milliseconds, percent

LEAST_SHOWN = 0.001
"""Percentages are shown in tenths."""
TOO_LITTLE_TO_SHOW = 0.005
"""A slowdown that two decimals would show as 1.00."""
WORTH_SAYING = 0.10
"""A wider interval around 1 says nothing about being as fast as alone."""

CHECK_WORDS: Mapping[str, str] = {
    "quiet_machine": "other processes used the device",
    "no_steal": "the host took processor time away",
    "device_free": "other processes held the device",
    "load_sustained": "a tenant did not keep up with its load",
    "on_schedule": "requests were sent late",
    "enough_requests": "too few requests in a window",
    "requests_served": "a tenant served nothing",
    "requests_succeed": "requests failed",
    "records_complete": "records are incomplete",
    "tenants_alive": "a tenant ended",
    "sharing_verified": "the device wasn't shared as asked",
    "copies_equal": "copies weren't equal",
    "controls_applied": "the device's settings weren't as asked",
    "device_present": "the device disappeared",
    "sensors_present": "a sensor was missing",
    "clock_stable": "the clock moved",
    "steady": "times were not steady",
    "start_temperature": "the device started at another temperature",
}
"""What the failure of a check means, in prose."""
MOST_DOUBTS = 3
MOST_BLOCKS = 100_000
SENSIBLE_BLOCKS = 500
"""Beyond this, more blocks don't help."""
_SEVERAL_MEMBERS = re.compile(r" on \d+ of \d+$")
"""Suffix of mixes that run on several members of a group at once."""
MOST_SLOWDOWNS = 12
"""Most sentences shown."""


def closing_sentences(summary: Summary, target: float | None = None) -> list[str]:
    """Slowdowns under the best sharing of each mix, then objectives, then open questions.

    Recommendations are left to the decision. ``target`` is the relative half-width of slowdowns that the study aims
    for; without it only quantiles and single blocks count as imprecise.
    """
    label = _Label(summary)
    shared = [mix for mix in summary.mixes if not mix.cell.solo]
    lines = [
        *(found.sentence() for found in summary.accuracy.values()),
        *_slowdowns(summary, shared, label),
        *_objectives(summary.tenants, label),
        *_rejected(summary.mixes),
        *summary.doubts[:MOST_DOUBTS],
        *([summary.windows.sentence()] if summary.windows is not None else []),
        *_imprecise(summary, label, target),
    ]
    if any(mix.cell.simulated for mix in summary.mixes):
        lines.append("Simulated devices computed these numbers; nothing was measured on them.")
    return lines


class _Label:
    """Label a cell by its mix and sharing, and by other conditions that vary within the summary."""

    def __init__(self, summary: Summary) -> None:
        cells = [mix.cell for mix in summary.mixes]
        self._several = {
            name: len({getattr(cell, name) for cell in cells}) > 1 for name in ("load", "settings", "device", "run")
        }

    def conditions(self, cell: Cell) -> str:
        words = {name: getattr(cell, name) for name, several in self._several.items() if several}
        if "settings" in words:
            words["settings"] = settings_said(cell.settings)
        return f"({', '.join([sharing_said(cell.sharing), *words.values()])})"

    def __call__(self, cell: Cell) -> str:
        """` in a+b (mps)`, or of a tenant alone ` (alone)`."""
        return f"{'' if cell.solo else f' in {cell.mix}'} {self.conditions(cell)}"


def _slowdowns(summary: Summary, shared: Sequence[MixSummary], label: _Label) -> Iterable[str]:
    """Slowdowns of each mix under its best sharing; of many, the worst."""
    mix_of = {mix.cell: mix for mix in shared}
    best = {options[0].cell for options in _options(shared)}
    listed = [tenant for tenant in summary.tenants if tenant.cell in best]
    if len(listed) > MOST_SLOWDOWNS:
        listed = sorted(listed, key=lambda tenant: -_size(tenant.slowdown))[:MOST_SLOWDOWNS]
        yield f"The {MOST_SLOWDOWNS} largest slowdowns, each mix under its best sharing:"
    yield from (_slowdown(tenant, mix_of[tenant.cell], label) for tenant in listed)


def _options(shared: Sequence[MixSummary]) -> list[list[MixSummary]]:
    """The sharings of each mix (at each load, setting and device): trusted ones first, then most work first."""
    groups: dict[Cell, list[MixSummary]] = {}
    for mix in shared:
        groups.setdefault(replace(mix.cell, sharing=""), []).append(mix)
    return [sorted(group, key=lambda mix: (not _trusted(mix), -_size(mix.metrics["stp"]))) for group in groups.values()]


def _trusted(mix: MixSummary) -> bool:
    """Some trial passed every check."""
    return mix.trials_by_verdict.get("valid", 0) > 0


def _size(number: Number) -> float:
    return number.est if isinstance(number, Estimate) else 0.0


def _slowdown(tenant: TenantSummary, mix: MixSummary, label: _Label) -> str:
    where = f"{_beside(tenant, mix)} {label.conditions(tenant.cell)}"
    number = tenant.slowdown
    if not isinstance(number, Estimate):
        return f"{tenant.tenant}: no slowdown {where}: {number.reason}."
    least = "at least " if tenant.slowdown_is_least else ""
    if number.lo is None or number.hi is None:
        return f"{tenant.tenant} runs {least}{_pace(number.est)} {where}, from one block, so without an interval."
    within = max(1 - number.lo, number.hi - 1)
    if number.lo <= 1 <= number.hi or within < TOO_LITTLE_TO_SHOW:
        if within <= WORTH_SAYING and not least:
            known = percent(max(within, LEAST_SHOWN))
            return f"{tenant.tenant} runs as fast as alone within ±{known} {where}."
        return f"{tenant.tenant}: not clear whether it slows down {where}: {number.est:.2f}x {_ends(number)}."
    if number.est < 1:
        ends = f"[{1 / number.hi:.2f}, {1 / number.lo:.2f}]"
        return f"{tenant.tenant} runs {1 / number.est:.2f}x faster {ends} {where}."
    return f"{tenant.tenant} runs {least}{_pace(number.est)} {_ends(number)}{_basis(tenant)} {where}."


def _basis(tenant: TenantSummary) -> str:
    """Basis of a number where nothing was measured."""
    if not tenant.cell.simulated:
        return ""
    known = tenant.model_error is not None and tenant.model_error.validated
    return ", simulated," if known else ", simulated and not validated,"


def _beside(tenant: TenantSummary, mix: MixSummary) -> str:
    others = [name for name in mix.tenants if name != tenant.tenant]
    copies = [name for name in others if name.partition("#")[0] == tenant.of]
    found = _SEVERAL_MEMBERS.search(mix.cell.mix)
    where = found.group() if found else ""
    if others and len(copies) == len(others):
        return f"beside {len(copies)} {'copy' if len(copies) == 1 else 'copies'} of itself{where}"
    if 1 <= len(others) <= 3:
        return f"beside {' and '.join(others)}{where}"
    if not others and where:
        return f"while it runs{where}"
    return f"in {mix.cell.mix}"


def _pace(slowdown: float) -> str:
    return f"{slowdown:.2f}x slower" if slowdown >= 1 else f"{1 / slowdown:.2f}x faster"


def _ends(number: Estimate) -> str:
    return "" if number.lo is None or number.hi is None else f"[{number.lo:.2f}, {number.hi:.2f}]"


def _objectives(tenants: Iterable[TenantSummary], label: _Label) -> Iterable[str]:
    for tenant in tenants:
        if tenant.slo is None or tenant.slo_ms is None:
            continue
        if tenant.cell.simulated:  # the decision says what is kept: it knows the error of the model
            yield (
                f"{tenant.tenant}{label(tenant.cell)}, simulated: {in_time(tenant.slo.share.est)} of requests "
                f"are within its {tenant.slo.of_what}{milliseconds(tenant.slo_ms)}, "
                f"{in_time(tenant.slo.quantile)} are wanted."
            )
            continue
        says = {"met": "meets", "missed": "misses", "undecided": "may or may not meet"}[tenant.slo.answer]
        yield (
            f"{tenant.tenant} {says} its {tenant.slo.of_what}{milliseconds(tenant.slo_ms)} for "
            f"{tenant.slo.quantile * 100:g} % of requests{label(tenant.cell)}: "
            f"{tenant.slo.share.est * 100:.1f} % were in time."
        )


def _rejected(mixes: Sequence[MixSummary]) -> Iterable[str]:
    verdicts: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for mix in mixes:
        verdicts.update(mix.trials_by_verdict)
        checks.update(mix.failed_checks)
    bad = verdicts["unstable"] + verdicts["invalid"]
    if bad:
        named = ", ".join(f"{CHECK_WORDS.get(check, check)}: {count}" for check, count in checks.most_common())
        used = f"the {verdicts['invalid']} invalid ones were left out" if verdicts["invalid"] else "they were used"
        yield f"{bad} of {verdicts.total()} trials were not valid{f' ({named})' if named else ''}; {used}."


def _imprecise(summary: Summary, label: _Label, target: float | None) -> Iterable[str]:
    """A sentence on slowdowns and another on quantiles: how many need more data, and what the neediest needs."""
    wide = [
        (more * summary.block_seconds.get(tenant.cell.run, 0.0), more, tenant)
        for tenant in summary.tenants
        if not tenant.cell.solo
        and not tenant.cell.simulated  # more blocks don't narrow the model's error
        and (more := _more_blocks(tenant.slowdown, target))
    ]
    if wide:
        seconds, more, tenant = max(wide, key=lambda item: item[0])
        asked = "have no interval yet" if target is None else f"are not yet known to ±{percent(target)}"
        every = sum(not other.cell.solo for other in summary.tenants)
        yield (
            f"{len(wide)} of {every} slowdowns {asked}; the neediest, "
            f"{tenant.tenant}{label(tenant.cell)}, {_wish(more, seconds)}."
        )
    short = [(seconds, name, tenant) for tenant in summary.tenants for name, seconds in tenant.needs_seconds.items()]
    if short:
        seconds, name, tenant = max(short, key=lambda item: item[0])
        found = tenant.latency_ms[name]
        do = "simulate" if tenant.cell.simulated else "measure"
        yield (
            f"{amount(len(short), 'latency quantile needs', 'latency quantiles need')} more requests; the neediest, "
            f"{name} of {tenant.tenant}{label(tenant.cell)}, needs {found.needs_n:,} and has {found.n:,}: "
            f"{do} it {duration(seconds)} longer."
        )


def _wish(more: int, seconds: float) -> str:
    if more > SENSIBLE_BLOCKS:
        return "scatters too much for more blocks to help: find what disturbs it"
    return f"needs about {more} more block{'s'[: more > 1]} ({duration(seconds)})"


def _more_blocks(number: Number, target: float | None) -> int:
    """Blocks until the interval is as narrow as required, if further blocks scatter like those seen."""
    if not isinstance(number, Estimate):
        return 0
    width = number.relative_half_width
    if width is None:
        return 2 if number.n == 1 else 0
    if target is None or width <= target:
        return 0
    spread = width * math.sqrt(number.n) / student_t(number.n - 1)
    enough = number.n + 1
    while enough < MOST_BLOCKS and spread * student_t(enough - 1) / math.sqrt(enough) > target:
        enough = math.ceil(enough * 1.05)
    return enough - number.n


# --- meanings of `alone` for servers: beside idle neighbours, with them stopped, or with all the device's memory

ALIKE = 0.05
"""Means are called alike if they differ by less than this, or by less than the trials before and after the run."""


@dataclass(frozen=True, slots=True)
class AloneThreeWays:
    """Mean latencies of a tenant of a run, ms."""

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
        around = sorted(
            (seen for seen in group if seen.block in {STOPPED_BLOCK, WHOLE_BLOCK}), key=lambda seen: seen.trial
        )
        idle = [_ms(seen) for seen in group if seen.block >= 0]
        stopped = tuple(_ms(seen) for seen in around if seen.block == STOPPED_BLOCK)
        whole = [_ms(seen) for seen in around if seen.block == WHOLE_BLOCK]
        if idle and (stopped or whole):
            doubtful = any(seen.verdict != "valid" for seen in group)
            found.append(AloneThreeWays(of, fmean(idle), stopped, whole[0] if whole else None, doubtful))
    return tuple(found)


def alone_sentences(found: Sequence[AloneThreeWays]) -> list[str]:
    """The result of each way of being alone."""
    return [
        f"{sentence} (not all of these trials were valid)." if ways.doubtful else f"{sentence}."
        for ways in found
        for sentence in (_stopped(ways), _whole(ways))
        if sentence
    ]


def _stopped(ways: AloneThreeWays) -> str:
    if not ways.stopped_ms:
        return ""
    times = " before the run and ".join(f"{value:.3g} ms" for value in ways.stopped_ms)
    after = " after it" if len(ways.stopped_ms) > 1 else " before the run"
    change = ways.idle_ms / fmean(ways.stopped_ms) - 1
    verdict = (
        "idle neighbours cost it nothing measurable"
        if abs(change) <= max(ALIKE, _apart(ways.stopped_ms))
        else f"{percent(abs(change))} {'more' if change > 0 else 'less'} beside idle neighbours"
    )
    idle = f"{ways.of} alone takes {ways.idle_ms:.3g} ms beside idle neighbours"
    return f"{idle}; with them stopped {times}{after}: {verdict}"


def _whole(ways: AloneThreeWays) -> str:
    if ways.whole_ms is None:
        return ""
    base = fmean(ways.stopped_ms) if ways.stopped_ms else ways.idle_ms
    change = base / ways.whole_ms - 1
    cost = (
        "the smaller share costs it nothing measurable"
        if abs(change) <= ALIKE
        else f"its share costs {percent(change)}"
    )
    return f"{ways.of} alone with all of the device's memory takes {ways.whole_ms:.3g} ms instead of {base:.3g}: {cost}"


def _apart(values: Sequence[float]) -> float:
    """Difference between the trials before and after the run: the drift of the machine itself."""
    return max(values) / min(values) - 1


def _ms(seen: TenantObservation) -> float:
    return seen.mean_latency_ns / 1e6
