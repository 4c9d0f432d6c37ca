"""Predictions for a terminal: the answer in a sentence, then mixes from best to worst."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.prediction.interference.forecast import MixForecast, NextMix, PredictedMixes, TenantForecast
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.tenancy.nouns import DeviceName
from cotenant.text import NOTHING, amount, figure, percent, ratio, size, with_interval

MOST_ROWS = 14
"""Maximum mixes shown without `--all`."""


def prediction_parts(
    prediction: PredictedMixes, *, everything: bool = False, study: str | None = None
) -> tuple[RenderableType, ...]:
    """Answer, table, suggested measurements and notes; a single mix by tenant.

    Args:
        prediction: The result.
        everything: Show every mix.
        study: The study and its device as on a command line, to suggest measurements; None: suggest none.
    """
    parts: list[RenderableType] = [Text(literal(answer(prediction)), "bold")]
    mixes = sorted(prediction.mixes, key=lambda mix: mix.worst)
    if len({mix.mix for mix in mixes}) == 1:
        parts += [
            part
            for mix in mixes
            for part in (Text(f"under {mix.sharing}{_memory(mix)}{_power(mix)}{_common_basis(mix)}"), _tenants(mix))
        ]
    elif mixes:
        shown = mixes if everything else mixes[:MOST_ROWS]
        parts.append(listing(("mix", "sharing", "slowest", "slowdown", "rests on"), [_row(mix) for mix in shown]))
        if len(mixes) > len(shown):
            parts.append(
                Text(f"{amount(len(mixes) - len(shown), 'more mix', 'more mixes')}: --all; one: --mix A+B", "dim")
            )
    if prediction.next and study is not None:
        parts.append(Text("Worth measuring next:"))
        parts.append(sentence_list([_next(mix) for mix in prediction.next]))
        parts.append(Text(literal(_command(study, prediction.next))))
    if prediction.notes:
        parts.append(sentence_list(list(prediction.notes)))
    return tuple(parts)


def answer(prediction: PredictedMixes) -> str:
    """The first sentence: how many mixes are known how, and the best and the worst of them."""
    mixes = prediction.mixes
    if not mixes:
        return f"nothing can be predicted on {prediction.device}"
    gentlest, worst = min(mixes, key=lambda mix: mix.worst), max(mixes, key=lambda mix: mix.worst)
    if len({mix.mix for mix in mixes}) == 1:
        others = f", {_worst(worst)} under {worst.sharing}" if len(mixes) > 1 else ""
        return (
            f"{worst.label}: beside each other the slowest takes {_worst(gentlest)} times as long as alone under "
            f"{gentlest.sharing}{others}"
        )
    known = sum(mix.tenants[0].basis.startswith(("measured", "simulated,")) for mix in mixes)
    how = "simulated" if DeviceName(prediction.device).simulated else "measured"
    counted = f"{amount(len(mixes), 'mix', 'mixes')} on {prediction.device}, {known or 'none'} of them {how}"
    if ratio(gentlest.worst) == ratio(worst.worst):
        return f"{counted}: in each, the slowest tenant takes {_worst(worst)} times as long as alone"
    return (
        f"{counted}: the best is {gentlest.label} under {gentlest.sharing} ({_worst(gentlest)} at most), "
        f"the worst {worst.label} under {worst.sharing} ({_worst(worst)})"
    )


def _slowest(mix: MixForecast) -> TenantForecast:
    return max(mix.tenants, key=lambda tenant: tenant.slowdown.est)


def _worst(mix: MixForecast) -> str:
    return with_interval(_slowest(mix).slowdown, ratio)


def _row(mix: MixForecast) -> tuple[str, ...]:
    worst = _slowest(mix)
    return mix.label, mix.sharing, worst.tenant, with_interval(worst.slowdown, ratio), _short(worst.basis)


def _short(basis: str) -> str:
    return basis.replace(" of this tenant", "")


def _tenants(mix: MixForecast) -> RenderableType:
    tails = any(tenant.tail is not None for tenant in mix.tenants)
    powered = any(tenant.energy_j is not None for tenant in mix.tenants)
    columns = ["tenant", "slowdown", *(["p50 ms", "p99 ms", "in time"] if tails else ["req/s", "ms"])]
    own_basis = not _common_basis(mix)
    columns += ["J/req"] * powered + ["basis"] * own_basis
    rows = [
        (
            tenant.tenant,
            with_interval(tenant.slowdown, ratio),
            *(_tail(tenant) if tails else (with_interval(tenant.throughput_rps), with_interval(tenant.latency_ms))),
            *((NOTHING if tenant.energy_j is None else figure(tenant.energy_j.est),) if powered else ()),
            *((tenant.basis,) if own_basis else ()),
        )
        for tenant in mix.tenants
    ]
    return listing(tuple(columns), rows)


def _common_basis(mix: MixForecast) -> str:
    """The basis, if it is that of all tenants: a column for it would leave too little room for the others."""
    bases = {tenant.basis for tenant in mix.tenants}
    return f" ({bases.pop()})" if len(bases) == 1 else ""


def _memory(mix: MixForecast) -> str:
    return "" if mix.memory_bytes is None else f", {size(mix.memory_bytes)} of memory"


def _power(mix: MixForecast) -> str:
    return "" if mix.power_w is None else f", {figure(mix.power_w.est)} W"


def _tail(tenant: TenantForecast) -> tuple[str, str, str]:
    tail = tenant.tail
    if tail is None:
        return NOTHING, NOTHING, NOTHING
    within = NOTHING if tail.attainment is None else with_interval(tail.attainment, percent)
    return with_interval(tail.p50_ms), with_interval(tail.p99_ms), within


def _next(mix: NextMix) -> str:
    return f"{' + '.join(mix.mix)} under {mix.sharing}: removes {percent(mix.buys)} of the uncertainty"


def _command(study: str, mixes: Sequence[NextMix]) -> str:
    """Measures them all, in one run."""
    groups = dict.fromkeys(mix.mix for mix in mixes)
    listed = ", ".join(f"{'-'.join(group)}: [{', '.join(group)}]" for group in groups)
    ways = ", ".join(dict.fromkeys(mix.sharing for mix in mixes))
    return f"cotenant run {study} --set 'mixes=[solo, {{groups: {{{listed}}}}}]' --set 'sharing=[{ways}]'"
