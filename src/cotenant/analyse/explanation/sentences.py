"""An explanation in sentences that quote their numbers and their certainty."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from cotenant.analyse.decision.option import VISIBLE
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.explanation.contention import Fight, MixStory, contribution
from cotenant.analyse.explanation.explanation import Explanation
from cotenant.analyse.explanation.patterns import Pattern, contrast_sentences, pattern_sentences
from cotenant.analyse.explanation.split import MEANING, Split
from cotenant.analyse.sharing.cells import settings_said, sharing_said
from cotenant.tenancy.interval import Estimate, Number
from cotenant.tenancy.records import OWN
from cotenant.text import amount, listed, percent

WORDS = {
    "cores": "cores",
    "memory bandwidth": "memory bandwidth",
    "cache": "the cache",
    "memory bandwidth or cache": "memory bandwidth or the cache",
    "queue": "the queue: requests wait for earlier ones",
    "host": "the host",
    "turns": "the device's time, which it gives to one process after the other",
    "device": "the device's time and bandwidth",
}
SAME = 0.01
"""Parts that change time by less are not mentioned."""
OVER_MIXES = "Intervals of correlations and of groups are over the simulated mixes, without the simulation's own error."
UNEVEN = 1.05
"""Smallest difference in slowdown of a pair for its aggressor to be named on the screen."""


def explanation_sentences(found: Explanation) -> list[str]:
    """Circumstances first, since they affect everything else; then tenants, mixes and missing measurements."""
    lines = [circumstance.sentence for circumstance in found.circumstances]
    several = len({(tenant.load, tenant.settings) for tenant in found.tenants}) > 1
    lines += [_tenant(tenant, several=several) for tenant in found.tenants]
    by_cell: dict[object, list[Split]] = {}
    for split in found.splits:
        by_cell.setdefault(split.cell, []).append(split)
    for story in found.mixes:
        lines += _mix(story, by_cell.get(story.cell, []))
    lines += [line for pattern in found.patterns for line in pattern_sentences(pattern)]
    lines += contrast_sentences(found.contrasts, list(dict.fromkeys(contrast.sharing for contrast in found.contrasts)))
    lines += _over_mixes(found)
    lines += _roles(found.mixes)
    lines += _worth(found.mixes)
    lines += [*found.shares, *found.more]
    if found.simulated:
        lines.append("Simulated devices computed these numbers; nothing was measured on them.")
    return lines


def main_sentences(found: Explanation) -> list[str]:
    """Most important first: circumstances, why the best way of each mix costs what it does, then the summary."""
    stories = {story.cell: story for story in found.mixes}
    by_cell: dict[object, dict[str, Split]] = {}
    for split in found.splits:  # copies of a tenant suffer alike: the first is enough
        by_cell.setdefault(split.cell, {}).setdefault(split.of, split)
    best = [stories[choice.best.cell] for choice in found.answer.choices if choice.best.cell in stories]
    shown = best[:1] + [story for story in best[1:] if _fights(story)]
    causes = [list(_mix(story, list(by_cell.get(story.cell, {}).values()))) for story in shown]
    spared = len(best) - len(shown)
    first: dict[tuple[str, str], str] = {}
    for circumstance in found.circumstances:  # report once what holds for a tenant in every mix
        first.setdefault((circumstance.kind, circumstance.about), circumstance.sentence)
    return [
        *first.values(),
        *_worth_in_short(found.mixes),
        *found.shares,
        *_patterns(found.patterns, best),
        *contrast_sentences(found.contrasts, _commonest(best)),
        *_over_mixes(found),
        *(causes[0] if causes else ()),
        *_roles([story for story in best if (story.imbalance.est or 1.0) >= UNEVEN]),
        *found.more,
        *(line for lines in causes[1:] for line in lines),
        *(
            [f"{amount(spared, 'other mix', 'others')}, shared the best way: no tenant is shown to be slowed down."]
            if spared
            else []
        ),
    ]


def _over_mixes(found: Explanation) -> list[str]:
    return [OVER_MIXES] if found.simulated and (found.patterns or found.contrasts) else []


def _commonest(best: Sequence[MixStory]) -> list[str]:
    """The two ways to share that are best most often."""
    return [sharing for sharing, _ in Counter(story.cell.sharing for story in best).most_common(2)]


def _patterns(patterns: Sequence[Pattern], best: Sequence[MixStory]) -> Iterator[str]:
    """Patterns under the two ways to share that are best most often."""
    often = Counter(story.cell.sharing for story in best)
    ranked = sorted(patterns, key=lambda pattern: -often[pattern.sharing])
    for pattern in ranked[:2]:
        yield from pattern_sentences(pattern)


WORTH: Mapping[Literal["yes", "no", "open"], str] = {
    "yes": "worth it (every objective kept or, without any, clearly more work than taking turns)",
    "no": "not worth it",
    "open": "open",
}


def _worth_in_short(mixes: Sequence[MixStory]) -> Iterator[str]:
    count = Counter(story.worth for story in mixes)
    if len(mixes) < 2:
        yield from _worth(mixes)
        return
    parts = [
        f"{number} {'is' if number == 1 else 'are'} {said}" for worth, said in WORTH.items() if (number := count[worth])
    ]
    yield f"Of {len(mixes)} mixes and ways to share {listed(parts)}."


def _tenant(binding: Binding, *, several: bool) -> str:
    where = f" at {binding.load}" if several else ""
    time = f" ({binding.service_ms.est:.3g} ms per request)" if binding.service_ms.est is not None else ""
    if binding.bound == "unknown":
        return f"{binding.of} alone{where}{time}: its bottleneck is unknown, since {binding.reason}."
    sure = {"clear": "", "likely": "probably ", "unclear": "perhaps "}[binding.sure]
    stage = max(binding.stages, key=lambda name: binding.stages[name], default=None)
    longest = (
        f"; {percent(binding.stages[stage])} of it in `{stage}`"
        if stage is not None and len(binding.stages) > 1
        else ""
    )
    if binding.bound in {"waiting for the load", "waiting elsewhere"}:
        return f"{binding.of} alone{where} is {binding.bound}{time}: {binding.reason}{longest}."
    return f"{binding.of} alone{where} is {sure}bound by {binding.bound}{time}: {binding.reason}{longest}."


def mix_name(story: MixStory) -> str:
    """`a+b (pinned)`, `a+b (pinned, closed(8))`; each tenant's own load and the default go without saying."""
    load = "" if story.cell.load in {OWN, "closed(1)"} else f", {story.cell.load}"
    settings = "" if story.cell.settings in {"", "{}"} else f", {settings_said(story.cell.settings)}"
    return f"{story.cell.mix} ({sharing_said(story.cell.sharing)}{load}{settings})"


def _mix(story: MixStory, splits: Sequence[Split]) -> Iterator[str]:
    fights = _fights(story)
    wanted = _wanted(story)
    if not fights:
        shown = all(fight.sure for fight in story.fights)
        slow = "no tenant is shown to be slowed down" if shown else "no slowdown is known precisely enough"
        yield f"{mix_name(story)}: {slow}{wanted}."
        return
    resources = list(dict.fromkeys(fight.resource for fight in fights if fight.resource != "unknown"))
    if not resources:
        yield f"{mix_name(story)}: slower than alone, and no part of it stands out clearly{wanted}."
        yield from _tenants_of(story, splits)
        return
    unsure = (
        "" if all(fight.sure for fight in fights if fight.resource != "unknown") else " (as far as these sensors tell)"
    )
    lacking = " and ".join(WORDS[resource] for resource in resources if resource != "clock") or "nothing"
    clock = ", and the clock falls" if "clock" in resources else ""
    yield f"{mix_name(story)}: its tenants lack {lacking}{clock}{unsure}{wanted}."
    yield from _tenants_of(story, splits)


def _fights(story: MixStory) -> list[Fight]:
    return [fight for fight in story.fights if fight.resource != "nothing"]


def _tenants_of(story: MixStory, splits: Sequence[Split]) -> Iterator[str]:
    for split in splits:
        if split.slowed:
            where = f"{split.tenant} in {mix_name(story)}"
            yield f"{where} takes {_with_ends(split.total)} its time alone: {_parts(split)}."


def _wanted(story: MixStory) -> str:
    said = []
    if story.cores_wanted is not None and story.cores is not None:
        said.append(f"{story.cores_wanted:.1f} of {story.cores} cores")
    if story.bandwidth_wanted is not None:
        said.append(f"{percent(story.bandwidth_wanted)} of the memory bandwidth")
    return f"; alone they use {' and '.join(said)} in total" if said else ""


LESS = "less than alone"
"""Of a part that takes less time beside others than alone: batches of an engine grow, clocks rise."""


def _parts(split: Split) -> str:
    said = []
    for name, part in split.parts.items():
        if isinstance(part, Estimate) and abs(part.est - 1) >= SAME:
            share = contribution(split, name)
            much = f", {percent(share)} of it" if share is not None and 0 < share <= 1 else ""
            factor = f"{part.est:.2f}x" if split.cell.simulated else _with_ends(part)  # only the total has an error
            said.append(f"{name} {factor}{much} ({MEANING[name] if part.est >= 1 else LESS})")
    if isinstance(split.residual, Estimate) and abs(split.residual.est - 1) >= SAME:
        said.append(f"unexplained {_with_ends(split.residual)}")
    return "; ".join(said) or "no part of it stands out"


def _roles(mixes: Sequence[MixStory]) -> Iterator[str]:
    """Single pairs, then tenants that are aggressors everywhere."""
    for story in mixes:
        if story.aggressor is not None:
            yield (
                f"In {mix_name(story)} {story.aggressor} is the aggressor and {story.victim} the victim: its slowdown "
                f"is {_with_ends(story.imbalance)} that of {story.aggressor}."
            )
    yield from _everywhere(mixes)


def _everywhere(mixes: Sequence[MixStory]) -> Iterator[str]:
    """Tenants that slow their neighbours in every pair."""
    aggressors, victims = (
        {name for story in mixes if (name := getattr(story, role)) is not None} for role in ("aggressor", "victim")
    )
    for name in sorted(aggressors - victims):
        pairs = sum(story.aggressor == name for story in mixes)
        if pairs > 1:
            yield f"{name} slows others more than it is slowed in all {pairs} pairs in which one of the two does."


def _worth(mixes: Sequence[MixStory]) -> Iterator[str]:
    for story in mixes:
        if not isinstance(story.stp, Estimate):
            continue
        if story.delay is not None:
            yield _worth_at_rates(story, story.delay)
            continue
        done = f"STP {_with_ends(story.stp)}"
        if story.missed:
            yield f"{mix_name(story)} is not worth it: {_missing(story.missed)} ({done})."
        elif story.worth == "yes":
            yield f"{mix_name(story)} is worth it: {done} against 1 for taking turns, and no objective is missed."
        elif story.worth == "no":
            yield f"{mix_name(story)} is not worth it: {done}, less than the 1 of taking turns."
        elif story.stp.lo is not None and story.stp.lo > 1 + VISIBLE:
            yield f"{mix_name(story)} may or may not be worth it: {done}, but an objective is open."
        else:
            yield f"{mix_name(story)} may or may not be worth it: {done} against 1 for taking turns."


def _missing(tenants: Sequence[str]) -> str:
    return f"{listed(tenants)} {'misses its objective' if len(tenants) == 1 else 'miss their objectives'}"


def _worth_at_rates(story: MixStory, delay: Number) -> str:
    """Rates of arrival give the work, so sharing is judged by how long requests take."""
    done = f"requests take {_with_ends(delay)} their time alone"
    if story.missed:
        return f"{mix_name(story)} is not worth it: {_missing(story.missed)} ({done})."
    words = {"yes": "is worth it", "no": "is not worth it", "open": "may or may not be worth it"}
    return f"{mix_name(story)} {words[story.worth]}: {done}."


def _with_ends(number: Number) -> str:
    if number.est is None:
        return "an unknown multiple of"
    ends = "" if number.lo is None or number.hi is None else f" [{number.lo:.2f}, {number.hi:.2f}]"
    return f"{number.est:.2f}x{ends}"
