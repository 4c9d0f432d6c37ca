"""How far a study can be trusted: the width of its intervals, and the machine's variation during it. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

from cotenant.analyse.estimates.intervals import block_interval, mean_interval
from cotenant.analyse.estimates.robust import huber
from cotenant.analyse.estimates.warmup import classify
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.interval import Estimate, Interval
from cotenant.tenancy.records import TenantObservation

FEWEST_BLOCKS = 4
"""Fewest blocks to estimate how much the machine's speed varies."""
ROBUST_FROM = 12
"""Fewest blocks for outlying ones to be weighted down."""
DISTURBED = 0.75
"""A block whose slowdowns have a lower mean weight was disturbed."""
FEWEST_REQUESTS = 10
"""Fewest requests of a tenant in all windows of a cell."""
MEANINGFUL = 1.0
"""A half-width beyond this says no more than that nothing is known."""
WORTH_NAMING = 0.02
"""Smaller variation of the machine's speed is not what makes intervals wide."""
CROWDED = 0.10
"""Other processes that use less of the device than this are not worth naming."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Precision of a study's slowdowns."""

    widest: float
    """Largest relative half-width of a slowdown."""
    typical: float
    """Median of them."""
    blocks: int
    disturbed: int
    """Outlying blocks, which were weighted down."""
    speed_variation: float | None
    """Variation of a tenant's solo time between blocks, as a share; None with too few blocks."""
    block_s: float
    """Measured seconds per block."""
    foreign_share: float | None = None
    """Typical share of the device used by other processes; None where unknown."""
    scatter: float | None = None
    """Variation of a slowdown between blocks, as a share; None with too few blocks."""

    @property
    def crowded(self) -> bool:
        """Other processes used so much of the device that the slowdowns hold beside them only."""
        return self.foreign_share is not None and self.foreign_share >= CROWDED

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, disturbed="disturbed_blocks")

    def sentence(self) -> str:
        """A sentence on the precision, and what limits it."""
        if self.widest > MEANINGFUL:
            sentence = f"Not precise yet: some slowdown is known to no better than ±{_percent(MEANINGFUL)}"
        else:
            sentence = f"Slowdowns are good to ±{_percent(self.widest)}"
        if self.typical < 0.75 * min(self.widest, MEANINGFUL):
            sentence += f", half of them to ±{_percent(self.typical)}"
        sentence += self._cause()
        if self.disturbed:
            sentence += f"; {self.disturbed} of {self.blocks} blocks were disturbed and count less"
        sentence += "."
        if self.crowded and self.foreign_share is not None:
            share = _percent(self.foreign_share)
            sentence += f" Other processes used {share} of the device meanwhile: without them slowdowns may differ."
        return sentence

    def _cause(self) -> str:
        """What varies from block to block, if it can make intervals so wide.

        The machine, if that is at least half of the slowdowns' variance.
        """
        speed, scatter = self.speed_variation or 0.0, self.scatter or 0.0
        if max(scatter, math.sqrt(2) * speed) < self.typical * math.sqrt(self.blocks) / 4:
            return ""
        if speed >= max(WORTH_NAMING, scatter / 2):
            return f", because this machine's speed varies by {_percent(speed)} from block to block"
        if scatter >= WORTH_NAMING:
            return f", because slowdowns vary by {_percent(scatter)} from block to block"
        return ""


def accuracy_of(
    widths: Sequence[float | None],
    logs_by_block: Sequence[Mapping[int, float]],
    alone_by_block: Sequence[Mapping[int, float]],
    block_s: float,
    foreign_shares: Sequence[float | None] = (),
) -> Accuracy | None:
    """Accuracy of a run; None if no slowdown has an interval.

    Args:
        widths: Relative half-widths of all slowdowns.
        logs_by_block: Logarithms of every tenant's slowdowns, by block.
        alone_by_block: Logarithms of every tenant's times alone, by block.
        block_s: Measured seconds per block.
        foreign_shares: Share of the device used by other processes during each trial.
    """
    known = [width for width in widths if width is not None]
    if not known:
        return None
    return Accuracy(
        widest=max(known),
        typical=median(known),
        blocks=len({block for logs in logs_by_block for block in logs}),
        disturbed=disturbed_blocks(logs_by_block),
        speed_variation=speed_variation(alone_by_block),
        block_s=block_s,
        scatter=speed_variation(logs_by_block),
        foreign_share=median(shares) if (shares := [share for share in foreign_shares if share is not None]) else None,
    )


def disturbed_blocks(logs_by_block: Iterable[Mapping[int, float]]) -> int:
    """Blocks that are outliers in most of the slowdowns they contribute to."""
    weights: dict[int, list[float]] = {}
    for logs in logs_by_block:
        if len(logs) >= ROBUST_FROM:
            for block, weight in zip(logs, huber(np.array(list(logs.values()))).weights, strict=True):
                weights.setdefault(block, []).append(float(weight))
    return sum(sum(found) / len(found) < DISTURBED for found in weights.values())


def speed_variation(logs_by_block: Iterable[Mapping[int, float]]) -> float | None:
    """Variation of times or slowdowns between neighbouring blocks: the median over tenants of a robust spread."""
    spreads = []
    for logs in logs_by_block:
        series = np.array([logs[block] for block in sorted(logs)])
        if series.size >= FEWEST_BLOCKS:
            spreads.append(float(np.sqrt(np.mean(np.diff(series) ** 2) / 2)))
    return math.expm1(median(spreads)) if spreads else None


def unsteady(logs: Mapping[int, float]) -> str | None:
    """Trend of a slowdown over the blocks of a run, if any: `warm-up`, `slowdown` or `no steady state`."""
    kind = classify(np.exp([logs[block] for block in sorted(logs)]))
    return None if kind == "flat" else kind


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{share * 100:.0f} %"


# --- check short windows for bias: long windows of the same cells, settling after a switch, and carry-over. Pure

AROUND = 4
"""A long window is compared with short windows of the same cell in this many blocks before and after it."""
LONGER = 4.0
"""A window is long if it is this many times as long as the shortest of its cell."""
MARGIN = 0.05
"""Short and long windows agree if their ratio is shown to be within this."""

_ERRORS, _IN_A_ROW = 2.0, 3
"""Settled: within this many standard errors in this many consecutive bins."""

Agreement = Literal["agree", "differ", "can't tell"]


@dataclass(frozen=True, slots=True)
class Agree:
    """Times of long windows over those of short ones."""

    ratio: Estimate

    @property
    def answer(self) -> Agreement:
        """`agree`: within the margin. `differ`: beyond 1. Otherwise there were too few to decide."""
        if self.ratio.lo is None or self.ratio.hi is None:
            return "can't tell"
        if self.ratio.lo >= 1 / (1 + MARGIN) and self.ratio.hi <= 1 + MARGIN:
            return "agree"
        return "differ" if self.ratio.lo > 1 or self.ratio.hi < 1 else "can't tell"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"check": "short_windows_agree", "answer": self.answer, "long_over_short": self.ratio}

    def sentence(self) -> str:
        """The result as a sentence."""
        ends = "" if self.ratio.lo is None else f" [{self.ratio.lo:.2f}, {self.ratio.hi:.2f}]"
        figure = f"{self.ratio.est:.3f}x{ends} from {self.ratio.n} long windows"
        match self.answer:
            case "agree":
                return f"Long windows take as long per request as the short ones: {figure}."
            case "differ":
                return f"Long windows differ from the short ones ({figure}): measure again with --set window=2s."
            case _:
                return f"It is not clear yet whether long windows differ from the short ones: {figure}."


def short_windows_agree(groups: Iterable[Sequence[tuple[TenantObservation, float]]]) -> Agree | None:
    """Compare long windows with the short ones around them; None if there are none.

    Args:
        groups: For every tenant of every cell its observations with the logarithm of its mean time in each.
    """
    by_trial: dict[tuple[str, int], list[float]] = {}
    for group in groups:
        shortest = min((seen.window_s for seen, _ in group), default=0.0)
        short = [(seen, time) for seen, time in group if seen.window_s < LONGER * shortest]
        for seen, time in group:
            if seen.window_s < LONGER * shortest:
                continue
            near = [
                other for before, other in short if before.run == seen.run and abs(before.block - seen.block) <= AROUND
            ]
            if near:
                by_trial.setdefault((seen.run, seen.trial), []).append(time - sum(near) / len(near))
    # Tenants of a trial shared the same moment: a single replicate.
    differences = [sum(found) / len(found) for _, found in sorted(by_trial.items())]
    if not differences:
        return None
    logs = mean_interval(differences) if len(differences) < 12 else block_interval(differences)
    lo, hi = (None if end is None else math.exp(end) for end in (logs.lo, logs.hi))
    return Agree(Estimate(math.exp(logs.est), lo, hi, logs.n, f"{logs.method} on log ratios"))


@dataclass(slots=True)
class Moments:
    """Streaming count, mean and spread (Welford)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """One more."""
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self.squares += step * (value - self.mean)

    @property
    def error2(self) -> float:
        """Square of the mean's standard error."""
        return self.squares / (self.n - 1) / self.n if self.n > 1 else math.inf


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Times of a tenant that was active in the previous window over those of a tenant that was not."""

    ratio: Interval
    windows: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "on_before_over_off_before": self.ratio.est,
            "lo": self.ratio.lo,
            "hi": self.ratio.hi,
            "windows": self.windows,
        }


def carry_over(pairs: Iterable[tuple[Moments, Moments]]) -> CarryOver | None:
    """From each tenant and cell, log times after windows with and without it, weighted by precision."""
    found = [
        (on.mean - off.mean, on.error2 + off.error2, on.n + off.n)
        for on, off in pairs
        if on.n > 1 and off.n > 1 and 0 < on.error2 + off.error2 < math.inf
    ]
    if not found:
        return None
    weights = np.array([1 / error2 for _, error2, _ in found])
    mean = float(weights @ np.array([difference for difference, _, _ in found]) / weights.sum())
    half = 1.96 / math.sqrt(float(weights.sum()))
    ratio = Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
    return CarryOver(ratio, sum(n for _, _, n in found))


TOLERANCE = 0.02
"""Differences below this are ignored."""


def settled_after(by_bin: Mapping[int, Moments], bin_s: float) -> float | None:
    """Time after a common start from which requests take as long as later on, within tolerance and error; None: never.

    Args:
        by_bin: Log of service time over its window's mean, by the time since the start in bins.
        bin_s: Length of a bin.
    """
    bins = sorted(number for number, moments in by_bin.items() if moments.n > 1)
    calm = [abs(by_bin[number].mean) <= TOLERANCE + _ERRORS * math.sqrt(by_bin[number].error2) for number in bins]
    for place in range(len(bins) - _IN_A_ROW + 1):
        if all(calm[place : place + _IN_A_ROW]):
            return bins[place] * bin_s
    return None
