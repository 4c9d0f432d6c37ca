"""The answer in a sentence or two."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cotenant.analyse.decision.answer import Answer, Because, MixChoice, Verdict, effort
from cotenant.analyse.decision.option import MeasuredObjective, SharingOption, TenantInOption, mix_name
from cotenant.analyse.decision.remedies import DEFAULT, MOST_NAMED, relief, what_would_tell
from cotenant.analyse.sharing.cells import sharing_said
from cotenant.analyse.sharing.closing import CHECK_WORDS
from cotenant.tenancy.interval import Number
from cotenant.text import amount, figure, in_time, listed, milliseconds, percent, rate, ratio, times

WORTH_SAYING = 1.02
"""Smallest slowdown worth mentioning."""
MATRIX_FROM = 6
"""From this many mixes on, a run without objectives is a matrix: start with how many may share."""
_EVEN = 0.5
ALL_BUT_SURE = 0.99
ALIKE = 1.25
"""Slowdowns within this factor, whose intervals overlap, don't show who pays most."""


def headline(answer: Answer) -> list[str]:
    """The answer first: who misses alone, what to do with the whole mix, and what can share if it can't."""
    alone = missed_alone(answer)
    if not answer.choices:
        return [*alone, "Nothing shared a device in this run, so there is nothing to decide."]
    if _is_matrix(answer):
        return [*alone, *_over_all(answer)]
    main = answer.choices[0]
    sentences = [*alone, verdict(main)]
    shared = answer.best_shared
    if shared is not None and shared is not main:
        sentences.append(verdict(shared))
    return sentences


def _is_matrix(answer: Answer) -> bool:
    """Many mixes without objectives: a matrix, not a particular mix."""
    return len(answer.choices) >= MATRIX_FROM and not any(choice.best.objectives for choice in answer.choices)


def _over_all(answer: Answer) -> list[str]:
    """How many mixes may share, which gains most for its size, and which gains least."""
    counts = Counter((choice.favours, choice.confidence is None) for choice in answer.choices)
    words: Mapping[Verdict, str] = {"share": "may share", "apart": "should not", "open": "can't be decided yet"}
    parts = [
        f"{number} {'' if sure else 'probably '}{meaning}"
        for of, meaning in words.items()
        for sure in (True, False)
        if (number := counts[of, sure])
    ]
    sentences = [f"Of {len(answer.choices)} mixes {', '.join(parts)}."]
    known = [choice for choice in answer.choices if choice.verdict == "share"]
    known = known or [choice for choice in answer.choices if choice.favours == "share"]
    if known:
        sentences.append(verdict(max(known, key=_gain_of_each)))
    measured = [choice for choice in answer.choices if choice.best.work.est is not None]
    least = min(measured, key=lambda choice: choice.best.work.est or 0.0, default=None)
    if least is not None and least.best.trusted and len(measured) > 1:
        loses = least.best.work.hi is not None and least.best.work.hi < 1
        sentences.append(
            f"{_mix(least)} {'loses most' if loses else 'gains least'}: the best way, {_how(least)}, "
            f"{_effect(least.best)}."
        )
    return sentences


def _gain_of_each(choice: MixChoice) -> float:
    """Work beyond taking turns, as a share of the possible gain."""
    return ((choice.best.work.est or 0.0) - 1) / (len(choice.best.standings) - 1)


def verdict(choice: MixChoice) -> str:
    """One mix: share it and how, keep it apart and why, or what is unknown."""
    return _VERDICTS[choice.because](choice)


_VERDICTS: Mapping[Because, Callable[[MixChoice], str]] = {
    "keeps every objective": lambda it: (
        f"Share {_mix(it)} by {_how(it)}: every objective is kept{_tightest(it.best)}, {_cost(it.best)}{_rivals(it)}."
    ),
    "does more work": lambda it: (
        f"Share {_mix(it)} by {_how(it)}: {_cost(it.best)}{_pays_most(it.best)}{_rivals(it)}{_loser(it)}."
    ),
    "missed alone": lambda it: f"Don't put {_mix(it)} on this device: {_cannot_alone(it.best)}.",
    "missed shared": lambda it: f"Don't share {_mix(it)}: {_broken(it.best)} under {_how(it)}, {_ways(it)}.",
    "does less work": lambda it: f"Don't share {_mix(it)}: even the best way, {_how(it)}, {_effect(it.best)}.",
    "gains nothing": lambda it: (
        f"Sharing {_mix(it)} gains nothing: the best way, {_how(it)}, {_effect(it.best)}. Take turns."
    ),
    "starves a tenant": lambda it: (
        f"Don't share {_mix(it)}: {_how(it)} {_effect(it.best)} but starves {_slowest(it.best).tenant}."
    ),
    "too few requests": lambda it: f"{_leaning(it)}: {_undecided(it)}.",
    "too few blocks": lambda it: (
        f"{_leaning(it)}: {_cost(it.best)}{_pays_most(it.best)}."
        if it.favours == "share"
        else f"{_leaning(it)}: the best way, {_how(it)}, {_effect(it.best)}."
    ),
    "no trial passed": lambda it: f"Can't tell yet about {_mix(it)}: {_why_none_passed(it.best)}.",
    "disturbed": lambda it: (
        f"Can't tell about {_mix(it)}: it did more than all its tenants alone, so these were measured too slow: "
        "disturbed, or on cores that sleep between requests."
    ),
}


def decision_word(choice: MixChoice) -> str:
    """`share`, `keep apart`, `share, 72 %`, or `can't tell yet`."""
    word = {"share": "share", "apart": "keep apart", "open": "can't tell yet"}[choice.favours]
    return word if choice.confidence is None else f"{word}, {_sure(choice.confidence)}"


def _leaning(choice: MixChoice) -> str:
    """`Share a + b by mps, 72 % sure`, where the intervals don't tell."""
    sure = f"{_sure(choice.confidence or 0.0)} sure"
    if choice.favours == "share":
        return f"Share {_mix(choice)} by {_how(choice)}, {sure}"
    return f"Don't share {_mix(choice)}, {sure}"


def _sure(confidence: float) -> str:
    """Never 100 %, which an open question can't be."""
    return percent(confidence) if confidence <= ALL_BUT_SURE else f"over {percent(ALL_BUT_SURE)}"


def _mix(choice: MixChoice) -> str:
    return mix_name(choice.best.standings)


def _how(choice: MixChoice) -> str:
    return _way(choice.best)


def _way(option: SharingOption) -> str:
    return sharing_said(option.cell.sharing)


def _effect(option: SharingOption) -> str:
    """`does 1.4x the work of taking turns`, or how long requests take if their rates are given."""
    return f"{'makes' if option.rates_given else 'does'} {_cost(option)}"


def _cost(option: SharingOption) -> str:
    basis = ", simulated" if option.cell.simulated else ""
    if option.rates_given:
        return f"requests take {times(option.delay)} as long as alone{basis}"
    return f"{times(option.work)} the work of taking turns{basis}"


def option_sentence(option: SharingOption) -> str:
    """A way to share that is not the best of its mix."""
    if not option.trusted:
        return f"No trial of {_way(option)} passed every check."
    kept = objectives(option)
    cost = kept or f"slowdowns: {slowdowns(option)}"
    return f"{_way(option)} {_effect(option)}; {cost}."


def _cannot_alone(option: SharingOption) -> str:
    """Who misses its objective alone, run by what, and what would help."""
    missing = [tenant for tenant in option.standings if tenant.alone is not None and tenant.alone.answer == "missed"]
    by_name = {tenant.of: tenant for tenant in missing}
    fails = "misses its objective" if len(by_name) == 1 else "miss their objectives"
    if any(tenant.overloaded_alone for tenant in by_name.values()):
        fails = "can't keep up"
    sentence = f"{_names(list(by_name))} {fails} even alone"
    named = sorted({tenant.software for tenant in by_name.values() if tenant.software is not None})
    if named and all(tenant.software is not None for tenant in by_name.values()):
        default = ", the default software" if named == [DEFAULT] else ""
        sentence += f" (run by {listed(named)}{default})"
    lighter = relief([tenant for tenant in by_name.values() if tenant.overloaded_alone], alone=True)
    return f"{sentence}; {lighter}" if lighter else sentence


def _why_none_passed(option: SharingOption) -> str:
    overloaded = [tenant for tenant in option.standings if tenant.overloaded]
    if overloaded:
        behind = [
            f"{tenant.tenant} serves {figure(tenant.served_rps or 0.0, 2)}/s "
            f"of the {rate(tenant.rate_rps or 0.0)} that arrive"
            for tenant in overloaded[:MOST_NAMED]
        ]
        return f"under {_way(option)} {listed(behind)}"
    reasons = [CHECK_WORDS[check] for check in option.mix.failed_checks if check in CHECK_WORDS]
    why = f" ({listed(list(dict.fromkeys(reasons))[:MOST_NAMED])})" if reasons else ""
    return f"no trial of {_way(option)} passed every check{why}"


def slowdowns(option: SharingOption) -> str:
    """`bert 1.4x, gpt 1.9x`; copies together: `distilgpt2 x10: 3.1x each`."""
    groups: dict[str, list[TenantInOption]] = {}
    for tenant in option.standings:
        groups.setdefault(tenant.of, []).append(tenant)
    return ", ".join(_group(name, group) for name, group in groups.items())


def objectives(option: SharingOption) -> str:
    """`all kept`, `chat missed`, or nothing without objectives."""
    answers = [(tenant.tenant, tenant.shared.answer) for tenant in option.standings if tenant.shared is not None]
    if not answers:
        return ""
    if all(answer == "kept" for _, answer in answers):
        return "all kept"
    missed = [tenant for tenant, answer in answers if answer == "missed"]
    if missed:
        return f"{_names(missed)} missed"
    return f"{_names([tenant for tenant, answer in answers if answer == 'open'])} undecided"


def _group(name: str, group: Sequence[TenantInOption]) -> str:
    known = [tenant.slowdown.est for tenant in group if tenant.slowdown.est is not None]
    if not known:
        return f"{name} ?"
    if len(group) == 1:
        return f"{name} {ratio(known[0])}x"
    return f"{name} x{len(group)}: {ratio(sum(known) / len(known))}x each"


def missed_alone(answer: Answer) -> list[str]:
    """Tenants that miss their objective alone, with the conditions if it is only under some."""
    by_tenant: dict[str, list[TenantInOption]] = {}
    for missing in answer.missed_alone:
        by_tenant.setdefault(missing.tenant, []).append(missing)
    lines = []
    for tenant, many in list(by_tenant.items())[:MOST_NAMED]:
        worst = min(many, key=lambda standing: 0.0 if standing.alone is None else standing.alone.headroom or 0.0)
        assert worst.alone is not None
        more = f" and {amount(len(many) - 1, 'other condition')}" if len(many) > 1 else ""
        under = f" under {worst.under}{more}" if worst.under else ""
        lines.append(f"{tenant} misses its objective even alone{under}: {_against(worst.alone)}.")
    more_tenants = len(by_tenant) - MOST_NAMED
    return [*lines, f"So do {amount(more_tenants, 'other tenant')}."] if more_tenants > 0 else lines


def _against(objective: MeasuredObjective) -> str:
    if objective.seen is None or objective.seen.est is None:
        return (
            f"{in_time(objective.share_in_time)} of requests within {milliseconds(objective.limit_ms)}, "
            f"not {in_time(objective.quantile)}"
        )
    return f"{objective.name} is {milliseconds(objective.seen.est)}, not {milliseconds(objective.limit_ms)}"


def _broken(option: SharingOption) -> str:
    said = [
        f"{tenant.tenant} misses its objective ({_against(tenant.shared)})"
        for tenant in option.standings
        if tenant.shared is not None and tenant.shared.answer == "missed"
    ]
    more = len(said) - 1
    return said[0] + (f", and so {'does' if more == 1 else 'do'} {amount(more, 'other')}" if more else "")


def _undecided(choice: MixChoice) -> str:
    """What the estimates say, and the objective that is least sure."""
    option = choice.best
    doubtful = sorted(
        (tenant.shared.chance, number, tenant)
        for number, tenant in enumerate(option.standings)
        if tenant.shared is not None and tenant.shared.answer == "open"
    )
    chance, _, tenant = doubtful[0]
    assert tenant.shared is not None
    closest = _close(tenant, tenant.shared, simulated=option.cell.simulated)
    more = len(doubtful) - 1
    others = f"; {amount(more, 'other objective')} {'is' if more == 1 else 'are'} undecided too" if more else ""
    under = f"under {_how(choice)}, {_ways(choice)}, "
    if choice.favours == "apart" and chance < _EVEN:
        return f"{under}{closest}{others}"
    probably = "" if choice.favours == "share" else f", but of {len(doubtful)} that are close some probably don't"
    lead = "" if choice.favours == "share" else under
    return f"{lead}every estimate keeps its objective{probably}; closest: {closest}{others}"


def _close(tenant: TenantInOption, objective: MeasuredObjective, *, simulated: bool) -> str:
    """How close an open objective is to its limit, and whether that is the neighbours' doing."""
    seen, limit = objective.seen, milliseconds(objective.limit_ms)
    if seen is None or seen.est is None or objective.share_in_time < objective.quantile:
        share, needed = in_time(objective.share_in_time), in_time(objective.quantile)
        late_alone = tenant.alone is not None and tenant.alone.share_in_time < tenant.alone.quantile
        alone = f" ({in_time(tenant.alone.share_in_time)} alone)" if tenant.alone is not None and late_alone else ""
        return f"{tenant.tenant} has {share} of requests in time{alone} and needs {needed}"
    interval = ""
    if seen.lo is not None and seen.hi is not None:
        what = "range" if simulated else "95 % interval"
        interval = f" ({what} {figure(seen.lo)} to {figure(seen.hi)})"
    return f"{tenant.tenant}'s {objective.name} is {milliseconds(seen.est)}{interval}, its limit {limit}"


def _tightest(option: SharingOption) -> str:
    known = [
        (tenant.shared.headroom, tenant)
        for tenant in option.standings
        if tenant.shared is not None and tenant.shared.headroom is not None
    ]
    if not known:
        return ""
    headroom, tightest = min(known, key=lambda pair: pair[0])
    return f" ({tightest.tenant} has least to spare, {percent(max(0.0, headroom))})"


def _pays_most(option: SharingOption) -> str:
    slowest = _slowest(option)
    most = slowest.slowdown.est
    if most is None or most < WORTH_SAYING:
        return ""
    least = min((tenant.slowdown.est or 0.0 for tenant in option.standings), default=0.0)
    if most <= ALIKE * least and len(option.standings) > 1 and _overlap([each.slowdown for each in option.standings]):
        ends = dict.fromkeys(f"{ratio(value)}x" for value in (least, most))
        return f"; every tenant is {' to '.join(ends)} slower"
    return f"; {slowest.tenant} pays most, {ratio(most)}x slower"


def _overlap(numbers: Sequence[Number]) -> bool:
    """Their intervals have a value in common: none is shown to be larger than another."""
    ends = [(number.lo, number.hi) for number in numbers if number.lo is not None and number.hi is not None]
    return len(ends) == len(numbers) and max(lo for lo, _ in ends) <= min(hi for _, hi in ends)


def _slowest(option: SharingOption) -> TenantInOption:
    return max(option.standings, key=lambda tenant: tenant.slowdown.est or 0.0)


def _rivals(choice: MixChoice) -> str:
    """Other ways that may be as good; why a seemingly better way isn't the first."""
    mode = _mode(choice.best)
    better = [option for option in choice.passed_over if _mode(option) != mode]
    words = ""
    if better:
        option = (
            min(better, key=lambda option: option.gauge.est or 0.0)
            if choice.best.rates_given
            else max(better, key=lambda option: option.gauge.est or 0.0)
        )
        reason = "takes more to set up" if effort(option) > effort(choice.best) else "keeps less in reserve"
        words = f"; {_way(option)} at {ratio(option.gauge.est or 0.0)}x isn't clearly better and {reason}"
    if choice.starving:
        option = max(choice.starving, key=lambda option: option.work.est or 0.0)
        words += f"; {_way(option)} does {ratio(option.work.est or 0.0)}x but starves {_slowest(option).tenant}"
    named = {_mode(option) for option in better}
    modes = dict.fromkeys(_mode(option) for option in choice.rivals)
    others = [rival for rival in modes if rival != mode and rival not in named]
    return f"{words}; {_names(others)} may be as good" if others else words


def _mode(option: SharingOption) -> str:
    return option.cell.sharing.partition("[")[0]


def _loser(choice: MixChoice) -> str:
    """The clearly worst way in the table, if any."""
    worst = min(choice.options, key=lambda option: math.inf if option.work.est is None else option.work.est)
    if worst is choice.best or not worst.trusted or worst.work.hi is None or choice.best.work.lo is None:
        return ""
    if worst.work.hi >= choice.best.work.lo:
        return ""
    costs = "costs more than it gains" if worst.work.hi < 1 else "gains least"
    return f"; {_way(worst)} {costs}, {times(worst.work)}"


def _ways(choice: MixChoice) -> str:
    return "the only way tried" if len(choice.options) == 1 else f"the best of {len(choice.options)} ways tried"


def _names(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return listed(names)


# --- the answer as plain data: every choice with its verdict and sentence, and the effect of each way to share


def in_words(answer: Answer) -> dict[str, Any]:
    """`{"headline": [...], "missed_alone": [...], "choices": [...]}`, most important first."""
    return {
        "headline": headline(answer),
        "missed_alone": [tenant.tenant for tenant in answer.missed_alone],
        "choices": [_choice(choice) for choice in answer.choices],
    }


def _choice(choice: MixChoice) -> dict[str, Any]:
    return {
        "mix": mix_name(choice.best.standings),
        "verdict": choice.verdict,
        "favours": choice.favours,
        "confidence": choice.confidence,
        "because": choice.because,
        "sentence": verdict(choice),
        "what_would_tell": what_would_tell(choice) if choice.verdict == "open" else None,
        "options": [_option(option) for option in choice.options],
    }


def _option(option: SharingOption) -> dict[str, Any]:
    return {
        **option.cell.to_json(),
        "work": option.work,
        "objectives": option.kept,
        "headroom": option.headroom if option.objectives else None,
        "trusted": option.trusted,
        "tenants": option.standings,
    }
