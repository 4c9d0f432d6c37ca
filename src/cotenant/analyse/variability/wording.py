"""Findings on variability in sentences to act on."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from cotenant.analyse.variability.attribution import MEANINGS as ATTRIBUTION
from cotenant.analyse.variability.attribution import Rule
from cotenant.analyse.variability.decomposition import Decomposition
from cotenant.analyse.variability.drift import Change
from cotenant.analyse.variability.sensor_quality import HeatFit, SensorComparison, Stuck
from cotenant.analyse.variability.slow import MEANINGS, SickSensor, SlowGpu
from cotenant.analyse.variability.summary import Variability
from cotenant.tenancy.interval import Number
from cotenant.text import amount, duration, percent, ratio

CLEARLY = 0.3
"""Weaker rank correlations, and those whose intervals include 0, are not mentioned."""
NAMES = {"clock_mhz": "clock", "temperature_c": "temperature", "power_w": "power"}


def headline(found: Variability) -> list[str]:
    """How far apart the GPUs are, where that comes from, what correlates with it and what it costs."""
    seen = found.variation
    nouns = found.noun if seen.gpus == 1 else f"{found.noun}s"
    spread = (
        f"{'Simulated: ' if found.simulated else ''}{found.work} on {seen.gpus:,} {nouns}, {seen.runs:,} runs: times "
        f"vary by {_percent(seen.whisker_range)} (whiskers over median), the slowest run takes "
        f"{_number(seen.max_over_median)} times the median."
    )
    sentences = [spread]
    if seen.repeatability.est is not None:
        within = _percent(seen.repeatability)
        sentences.append(f"One {found.noun} repeats itself within {within} (coefficient of variation).")
    sentences += _sources(found.decomposition, found.noun)
    sentences += _companions(found)
    if found.straggler and any(cost.est is not None for cost in found.straggler.values()):
        sizes = [k for k, cost in found.straggler.items() if cost.est is not None]
        shown = [k for k in sizes if k in {4, 32}] or sizes[:1]
        least, *more = dict.fromkeys([*shown, sizes[-1]])
        others = "".join(f", {_number(found.straggler[k], 3)} on {k}" for k in more)
        sentences.append(
            f"A synchronous job takes {_number(found.straggler[least], 3)} times as long on {least} random "
            f"{found.noun}s as on median ones{others}."
        )
    return sentences


def anomalies(found: Variability) -> list[str]:
    """Every GPU that is slow, changed, or has an unreliable sensor."""
    sentences = [slow_sentence(gpu, found.noun) for gpu in found.slow]
    sentences += [change_sentence(change) for change in found.drift.changes]
    sentences += [sick_sentence(sensor) for sensor in found.sick_sensors]
    if found.simulated:
        return [f"Simulated: {sentence}" for sentence in sentences]
    return sentences


def undecided_sentences(found: Sequence[Variability]) -> list[str]:
    """Work under which no GPU can be called slow, a sentence per reason."""
    reasons: dict[str, list[str]] = {}
    for work in found:
        if work.undecided:
            reasons.setdefault(re.sub(r" \(p = .*\)", "", work.undecided), []).append(work.work)
    if len(found) == 1 and found[0].undecided:
        return [f"No {found[0].noun} is called slow under {found[0].work}: {found[0].undecided}."]
    return [f"No device is called slow under {_named(works)}: {reason}." for reason, works in reasons.items()]


def _named(works: Sequence[str], most: int = 3) -> str:
    more = len(works) - most
    return "; ".join(works[:most]) + (f" and {more} more" if more > 0 else "")


def slow_sentence(slow: SlowGpu, noun: str = "GPU") -> str:
    """Which, how much, since when, why."""
    where = ", ".join(f"{name} {value}" for name, value in (("cabinet", slow.cabinet), ("node", slow.node)) if value)
    since = f" since {day(slow.since_s)}" if slow.since_s is not None else ""
    place = f" ({where})" if where else ""
    return (
        f"{slow.gpu}{place} is {percent(slow.ratio - 1)} slower than the median {noun}{since}: {slow.cause}; "
        f"{slow.because}. That is, {MEANINGS[slow.cause]}."
    )


def change_sentence(change: Change) -> str:
    """A step or a drift."""
    who = change.gpu or "The whole fleet"
    way = "slower" if change.by > 0 else "faster"
    if change.kind == "step":
        return f"{who} became {percent(abs(change.by))} {way} on {day(change.at_s)}, from one run to the next."
    return f"{who} has drifted by {percent(abs(change.by))} and is now {way} than on {day(change.at_s)}."


def sick_sentence(sick: SickSensor) -> str:
    """A sensor over runs."""
    return f"The sensor {sick.sensor} of {sick.gpu} is unreliable: {sick.because}."


def stuck_sentence(gpu: str, stuck: Stuck) -> str:
    """A sensor over readings."""
    return (
        f"The sensor {stuck.sensor} of {gpu} stood still: {stuck.value:g} in all {stuck.readings:,} readings over "
        f"{stuck.to_s - stuck.from_s:.0f} s from {day(stuck.from_s)} on, while {stuck.witness} went from "
        f"{stuck.witness_from:g} to {stuck.witness_to:g}. The sensor is faulty: don't trust any power or energy of "
        "this GPU."
    )


def heat_sentence(fit: HeatFit) -> str:
    """How power becomes heat, and the error of that model."""
    poles = [
        f"{share:.2g} °C within {duration(tau)}"
        for share, tau in ((fit.fast_c_per_w, fit.fast_s), (fit.slow_c_per_w, fit.slow_s))
        if share > 0
    ]
    return (
        f"A watt more warms it by {' and another '.join(poles)}, above air of {fit.air_c:.0f} °C; on the last third of "
        f"{duration(fit.span_s)}, which was not fitted, that is off by {fit.held_out_rmse_c:.2g} °C "
        f"(with one time constant {fit.one_pole_rmse_c:.2g} °C)."
    )


def pair_sentence(reference: str, other: str, unit: str, found: SensorComparison) -> str:
    """How a sensor relates to a finer sensor of the same quantity."""
    window = f" averaged over {duration(found.window_s)}" if found.window_s > 0 else ""
    late = f", {duration(found.lag_s)} late" if found.lag_s > 0.005 else ""
    return (
        f"{other} shows {found.gain:.3f} times {reference}{window}{late}, {found.offset:+.3g} {unit}. Corrected by "
        f"that it is off by {found.held_out_rmse:.2g} {unit} on stretches that were not fitted; as it is, by "
        f"{found.uncorrected_rmse:.2g} {unit} ({found.n:,} readings)."
    )


def shared_sentence(power_w: float, watts: Mapping[str, float], rule: Rule, *, simulated: bool) -> str:
    """How the power of a shared GPU is attributed, and by which rule."""
    parts = ", ".join(f"{value:.0f} W of {work}" for work, value in watts.items())
    return (
        f"{'Simulated: ' if simulated else ''}shared, it drew {power_w:.0f} W: {parts} (rule {rule!r}: "
        f"{ATTRIBUTION[rule]})."
    )


def day(at_s: float) -> str:
    """`2020-06-02`, in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"


def _sources(found: Decomposition, noun: str) -> list[str]:
    sentences = []
    share = found.between_gpus
    gpu = found.level("gpu")
    if share.est is not None:
        text = f"{_percent(share)} of the variance lies between {noun}s"
        if gpu is not None and gpu.by_chance > gpu.alone:
            text += f", less than chance would give that many groups ({percent(gpu.by_chance)}): it is not the {noun}s"
        sentences.append(text + ".")
    if found.job_component is not None and found.job_component > 0.5:
        sentences.append(f"Jobs carry {percent(found.job_component)} of it: look at what differs from job to job.")
    node = found.level("node")
    if node is not None and gpu is not None and node.beyond_chance > max(0.1, 0.8 * gpu.beyond_chance):
        sentences.append(f"Nodes explain {percent(node.alone)} alone ({percent(node.by_chance)} would be chance).")
    return sentences


def _companions(found: Variability) -> list[str]:
    said, silent = [], []
    for name, number in found.correlations.items():
        if number.est is None or number.lo is None or number.hi is None:
            continue
        if abs(number.est) >= CLEARLY and not number.lo <= 0 <= number.hi:
            said.append(f"{NAMES[name]} ({number.est:.2f} [{number.lo:.2f}, {number.hi:.2f}])")
        elif number.lo <= 0 <= number.hi:
            silent.append(f"{NAMES[name]} ({number.est:.2f})")
    if not said and not silent:
        return []
    with_ = f"Slow {found.noun}s differ in {', '.join(said)}" if said else "No reading correlates with being slow"
    without = f"; not in {', '.join(silent)}" if silent else ""
    return [f"{with_}{without}; rank correlations with time."]


def _percent(number: Number) -> str:
    if number.est is None:
        return "an unknown share"
    digits = 0 if abs(number.est) >= 0.1 else 1 if abs(number.est) >= 0.01 else 3
    text = f"{number.est * 100:.{digits}f} %"
    if number.lo is not None and number.hi is not None:
        text += f" [{number.lo * 100:.{digits}f}, {number.hi * 100:.{digits}f}]"
    return text


def _number(number: Number, digits: int = 2) -> str:
    return "?" if number.est is None else f"{number.est:.{digits}f}"


# --- the three findings that matter most over every kind of work

NOTABLE = 0.01
"""Times that vary by less than this hardly show."""


def opening(works: Sequence[Variability]) -> list[str]:
    """How far apart, who is slow, what it costs."""
    return [*_apart(works), *_slow(works), *_cost(works)]


def _apart(works: Sequence[Variability]) -> list[str]:
    known = [(work.variation.whisker_range.est, work) for work in works if work.variation.whisker_range.est is not None]
    if not known:
        return []
    spread, most = max(known, key=lambda pair: pair[0])
    basis = "Simulated: " if most.simulated else ""
    devices = amount(most.variation.gpus, most.noun)
    said = f"{basis}{devices} differ most under {most.work}: times vary by {percent(spread)}"
    if len(known) == 1:
        return [f"{said}."]
    notable = sum(value >= NOTABLE for value, _ in known) or "none"
    return [f"{said}; under {notable} of {amount(len(known), 'kind')} of work by {percent(NOTABLE)} or more."]


def _slow(works: Sequence[Variability]) -> list[str]:
    found = [(slow, work) for work in works for slow in work.slow]
    if not found:
        judged = sum(not work.undecided for work in works)
        of = "any of" if judged == len(works) else f"{judged} of"
        tested = f"under {of} {amount(len(works), 'kind')} of work" if len(works) > 1 else "here"
        return [f"No {works[0].noun} is slow {tested}."] if judged else []
    names = [slow.gpu for slow, _ in found]
    worst = max(set(names), key=lambda name: (names.count(name), max(s.ratio for s, _ in found if s.gpu == name)))
    slowest, work = max((pair for pair in found if pair[0].gpu == worst), key=lambda pair: pair[0].ratio)
    others = len(set(names)) - 1
    more = f" {amount(others, 'other')} {'is' if others == 1 else 'are'} slow too." if others else ""
    return [f"Under {work.work} {slow_sentence(slowest, work.noun)}{more}"]


def _cost(works: Sequence[Variability]) -> list[str]:
    known = [(cost.est, size, work) for work in works for size, cost in work.straggler.items() if cost.est is not None]
    if not known:
        return []
    largest = max(size for _, size, _ in known)
    most, size, work = max((row for row in known if row[1] == largest), key=lambda row: row[0])
    if most < 1 + NOTABLE:
        return []
    job = f"A job on {amount(size, work.noun)} that waits for the slowest"
    return [f"{job} takes up to {ratio(most)}x the time of the median {work.noun} ({work.work})."]
