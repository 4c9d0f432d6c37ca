"""Who slows whom, in words: the answer first, then what would decide the rest."""

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.neighbours.influence import SMALL, Influence
from cotenant.analyse.neighbours.watched import Grant, Watched, WatchedTenant
from cotenant.text import amount, duration, figure, listed, size, times

LONGEST_MIN = 7 * 24 * 60.0
"""Watching longer than this isn't advice."""


def answer_sentences(watched: Watched) -> list[str]:
    """The answer: who slows whom, and what would decide the rest."""
    if not watched.influences:
        return [_nothing(watched)]
    said = [sentence(one) for one in watched.influences if one.verdict == "slows"]
    said += [sentence(one) for one in watched.influences if one.verdict == "hardly"]
    open_pairs = [one for one in watched.influences if one.verdict == "can't tell"]
    said += [sentence(one) for one in open_pairs]
    waiting = [one.more_minutes for one in open_pairs if one.more_minutes is not None]
    if waiting and max(waiting) <= LONGEST_MIN:
        rest = "the rest" if len(said) > len(open_pairs) else "it"
        said.append(f"About {duration(60 * max(waiting))} more of such traffic would decide {rest}.")
    elif waiting:
        said.append("Watching alone would take more than a week to decide the rest.")
    return said


def sentence(one: Influence) -> str:
    """One pair, in one sentence."""
    above = f"when it {_does(one)} more than {_level(one)}"
    against = "" if one.reference == "idle" else ", against its lightest load: it was never idle"
    if one.verdict == "slows":
        return f"{one.neighbour} slows {one.tenant} {times(one.busy)} {above}{against} ({one.measure})."
    if one.verdict == "hardly":
        return (
            f"{one.neighbour} hardly slows {one.tenant}: {times(one.busy)} {above}{against}, less than "
            f"{SMALL - 1:.0%} in any case."
        )
    if isinstance(one.busy, Estimate):
        return f"Whether {one.neighbour} slows {one.tenant} isn't decided: {times(one.busy)} {above}{against}."
    if one.experiment is not None:
        pauses, seconds = one.experiment
        return (
            f"Whether {one.neighbour} slows {one.tenant} can't be told: {one.busy.reason}. Pausing {one.neighbour} "
            f"{pauses} times for {duration(seconds)}, as long apart, while this watches would tell."
        )
    return f"Whether {one.neighbour} slows {one.tenant} can't be told: {one.busy.reason}."


def grant_sentence(tenant: WatchedTenant, grant: Grant) -> str:
    """Whether a granted part was honoured."""
    form = size if grant.unit == "B" else figure
    unit = "" if grant.unit == "B" else f" {grant.unit}"
    if grant.got is None:
        return (
            f"{tenant.tenant} is granted {form(grant.granted)}{unit} ({grant.by}); what it gets can't be seen here"
            + (f": {grant.shown_by} would show it." if grant.shown_by else ".")
        )
    over = grant.got > 1.05 * grant.granted
    said = "more than" if over else "within"
    return f"{tenant.tenant} got {form(grant.got)}{unit}, {said} the {form(grant.granted)}{unit} granted ({grant.by})."


def note_sentences(watched: Watched) -> list[str]:
    """Gaps and restarts, then what else happened to the readings."""
    said = []
    for one in watched.tenants:
        if one.restarts:
            said.append(
                f"{one.tenant} restarted {amount(one.restarts, 'time')}; what it did around that isn't counted."
            )
        if one.unknown_s:
            said.append(f"Nothing was read of {one.tenant} for {duration(one.unknown_s)}.")
    return [*said, *watched.notes]


def _nothing(watched: Watched) -> str:
    timed = [one.tenant for one in watched.series if one.timed]
    if not watched.tenants:
        return "Nothing was watched."
    if len(watched.tenants) == 1:
        return f"Only {watched.tenants[0].tenant} was watched: name its neighbours too, to learn who slows whom."
    if not timed:
        return (
            f"None of {listed([one.tenant for one in watched.tenants])} publishes times, so nothing tells who slows "
            "whom: name a URL with /metrics, or a histogram with --histogram."
        )
    return f"{duration(60 * watched.minutes)} are too short to tell who slows whom."


def _does(one: Influence) -> str:
    return {"/s": "serves", " tokens/s": "handles"}.get(one.unit, "uses")


def _level(one: Influence) -> str:
    return f"{figure(one.busy_from, 2)}{one.unit}"
