"""What a run found, in sentences a person can act on."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cotenant.analyse.cells import Cell
from cotenant.analyse.estimate import Estimate
from cotenant.analyse.intervals import student_t
from cotenant.analyse.missing import Number
from cotenant.analyse.summary import MixSummary, Summary, TenantSummary

WORTH_SAYING = 0.10
"""An interval around 1 that is wider than this says nothing about being as fast as alone."""

MOST_BLOCKS = 100_000


def closing_sentences(summary: Summary, target: float | None = None) -> list[str]:
    """Slowdowns, then what sharing gains, then what stays open, then what to do.

    ``target`` is the relative half-width of slowdowns that the study asked for; without one only quantiles and
    single blocks count as not precise enough.
    """
    label = _Label(summary)
    shared = [mix for mix in summary.mixes if not mix.cell.solo]
    mix_of = {mix.cell: mix for mix in shared}
    lines = [
        *(_slowdown(tenant, mix_of[tenant.cell], label) for tenant in summary.tenants if not tenant.cell.solo),
        *(_work(mix, label) for mix in shared),
        *_objectives(summary.tenants, label),
        *_rejected(summary.mixes, label),
        *_imprecise(summary, label, target),
        *advice(summary),
    ]
    if any(mix.cell.simulated for mix in summary.mixes):
        lines.append("Simulated devices computed these numbers; nothing was measured on them.")
    return lines


class _Label:
    """Names a cell by its mix and sharing, and by those other conditions that vary within the summary."""

    def __init__(self, summary: Summary) -> None:
        cells = [mix.cell for mix in summary.mixes]
        self._several = {
            name: len({getattr(cell, name) for cell in cells}) > 1 for name in ("load", "settings", "device", "run")
        }

    def conditions(self, cell: Cell) -> str:
        words = [cell.sharing, *(str(getattr(cell, name)) for name, several in self._several.items() if several)]
        return f"({', '.join(words)})"

    def __call__(self, cell: Cell) -> str:
        return f"{cell.mix} {self.conditions(cell)}"


def _slowdown(tenant: TenantSummary, mix: MixSummary, label: _Label) -> str:
    where = f"{_beside(tenant, mix)} {label.conditions(tenant.cell)}"
    number = tenant.slowdown
    if not isinstance(number, Estimate):
        return f"{tenant.tenant}: no slowdown {where}: {number.reason}."
    least = "at least " if tenant.slowdown_is_least else ""
    if number.lo is None or number.hi is None:
        return f"{tenant.tenant} runs {least}{_pace(number.est)} {where}, from one block, so without an interval."
    if number.lo <= 1 <= number.hi:
        within = max(1 - number.lo, number.hi - 1)
        if within <= WORTH_SAYING and not least:
            return f"{tenant.tenant} runs as fast as alone within +-{_percent(within)} {where}."
        return f"{tenant.tenant}: not clear whether it slows down {where}: {number.est:.2f}x {_ends(number)}."
    if number.est < 1:
        ends = f"[{1 / number.hi:.2f}, {1 / number.lo:.2f}]"
        return f"{tenant.tenant} runs {1 / number.est:.2f}x faster {ends} {where}."
    return f"{tenant.tenant} runs {least}{_pace(number.est)} {_ends(number)} {where}."


def _beside(tenant: TenantSummary, mix: MixSummary) -> str:
    others = [name for name in mix.tenants if name != tenant.tenant]
    copies = [name for name in others if name.partition("#")[0] == tenant.of]
    if others and len(copies) == len(others):
        return f"beside {len(copies)} {'copy' if len(copies) == 1 else 'copies'} of itself"
    if 1 <= len(others) <= 3:
        return f"beside {' and '.join(others)}"
    return f"in {mix.cell.mix}"


def _pace(slowdown: float) -> str:
    return f"{slowdown:.2f}x slower" if slowdown >= 1 else f"{1 / slowdown:.2f}x faster"


def _ends(number: Estimate) -> str:
    return "" if number.lo is None or number.hi is None else f"[{number.lo:.2f}, {number.hi:.2f}]"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{share * 100:.0f} %"


def _work(mix: MixSummary, label: _Label) -> str:
    stp = mix.metrics["stp"]
    if not isinstance(stp, Estimate):
        return f"{label(mix.cell)}: no comparison with taking turns: {stp.reason}."
    what = f"{mix.cell.mix}: sharing by {label.conditions(mix.cell)[1:-1]} gives"
    turns = f"the {_goods(mix.cell)} of taking turns"
    if stp.lo is None or stp.hi is None:
        return f"{what} {stp.est:.2f}x {turns}, from one block, so without an interval."
    if stp.lo <= 1 <= stp.hi:
        return f"{what} about {turns}: {stp.est:.2f}x {_ends(stp)}."
    return f"{what} {stp.est:.2f}x {turns} {_ends(stp)}."


def _goods(cell: Cell) -> str:
    """What STP sums up: under an open load the work is given, and sharing decides how fast it gets done."""
    return "work" if cell.load.startswith("closed") else "progress"


def _objectives(tenants: Iterable[TenantSummary], label: _Label) -> Iterable[str]:
    for tenant in tenants:
        if tenant.slo is None or tenant.slo_ms is None:
            continue
        says = {"met": "meets", "missed": "misses", "undecided": "may or may not meet"}[tenant.slo.answer]
        yield (
            f"{tenant.tenant} {says} its {tenant.slo_ms:g} ms for {tenant.slo.quantile * 100:g} % of requests in "
            f"{label(tenant.cell)}: {tenant.slo.share.est * 100:.1f} % were in time."
        )


def _rejected(mixes: Iterable[MixSummary], label: _Label) -> Iterable[str]:
    for mix in mixes:
        bad = sum(count for verdict, count in mix.trials_by_verdict.items() if verdict != "valid")
        if not bad:
            continue
        total = sum(mix.trials_by_verdict.values())
        checks = ", ".join(sorted(mix.failed_checks)) or "no check named"
        used = " none could be used" if mix.verdict == "invalid" else " the others and the unstable ones were used"
        yield f"{label(mix.cell)}: {bad} of {total} trials were not valid ({checks});{used}."


def _imprecise(summary: Summary, label: _Label, target: float | None) -> Iterable[str]:
    """One sentence on slowdowns and one on quantiles: how many want more, and what the neediest wants."""
    wide = [
        (more * summary.block_seconds.get(tenant.cell.run, 0.0), more, tenant)
        for tenant in summary.tenants
        if not tenant.cell.solo and (more := _more_blocks(tenant.slowdown, target))
    ]
    if wide:
        seconds, more, tenant = max(wide, key=lambda item: item[0])
        asked = "have no interval yet" if target is None else f"are not yet known to +-{_percent(target)}"
        yield (
            f"{len(wide)} of {sum(not one.cell.solo for one in summary.tenants)} slowdowns {asked}; the neediest, "
            f"{tenant.tenant} in {label(tenant.cell)}, wants about {more} more blocks ({_duration(seconds)})."
        )
    short = [(seconds, name, one) for one in summary.tenants for name, seconds in one.needs_seconds.items()]
    if short:
        seconds, name, tenant = max(short, key=lambda item: item[0])
        found = tenant.latency_ms[name]
        yield (
            f"{len(short)} latency quantiles want more requests; the neediest, {name} of {tenant.tenant} in "
            f"{label(tenant.cell)}, needs {found.needs_n} and has {found.n}: measure it {_duration(seconds)} longer."
        )


def _more_blocks(number: Number, target: float | None) -> int:
    """Blocks to go until the interval is as narrow as asked, if the blocks to come scatter as those seen."""
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


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, math.ceil(seconds))} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def advice(summary: Summary) -> Iterable[str]:
    """What to do. For each mix (and load, setting, device) the sharing to take, or none."""
    label = _Label(summary)
    shared = [mix for mix in summary.mixes if not mix.cell.solo]
    groups: dict[Cell, list[tuple[Estimate, MixSummary]]] = {}
    for mix in shared:
        stp = mix.metrics["stp"]
        if isinstance(stp, Estimate):
            groups.setdefault(replace(mix.cell, sharing=""), []).append((stp, mix))
    if shared and not groups:
        yield "No mix can be judged: look at the failed checks above, then run again."
    for options in groups.values():
        ranked = sorted(options, key=lambda option: -option[0].est)
        yield _choice(ranked, _missed(ranked[0][1], summary), label)


def _missed(mix: MixSummary, summary: Summary) -> list[str]:
    """Tenants that miss their objective in this mix and don't miss it alone: only that speaks against sharing."""
    missing = [one for one in summary.tenants if one.slo is not None and one.slo.answer == "missed"]
    alone = {(replace(one.cell, mix="", sharing=""), one.of) for one in missing if one.cell.solo}
    here = replace(mix.cell, mix="", sharing="", with_neighbours=False)
    return [one.tenant for one in missing if one.cell == mix.cell and (here, one.of) not in alone]


def _choice(ranked: Sequence[tuple[Estimate, MixSummary]], missed: Sequence[str], label: _Label) -> str:
    best, mix = ranked[0]
    name = label(mix.cell)
    if best.lo is None or best.hi is None:
        return f"Run more blocks before deciding on {mix.cell.mix}: one block has no interval."
    if best.hi < 1:
        return f"Don't share {mix.cell.mix}: even {label.conditions(mix.cell)} does less than taking turns."
    if best.lo <= 1:
        return f"Sharing {mix.cell.mix} gains nothing that these blocks can show: take turns, or run more blocks."
    if missed:
        return f"Sharing {name} does more than taking turns, but {' and '.join(missed)} would miss the objective."
    rivals = [other.cell.sharing for stp, other in ranked[1:] if stp.hi is not None and stp.hi >= best.lo]
    tied = f"; {' and '.join(rivals)} can't be told apart from it" if rivals else ""
    return f"Share {name}: {best.est:.2f}x the {_goods(mix.cell)} of taking turns{tied}."
