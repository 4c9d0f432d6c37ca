"""Predictions: the answer in a sentence, mixes from best to worst, and heat maps of every tenant beside others."""

import math
from collections.abc import Mapping, Sequence

from cotenant.prediction.interference import MixForecast, NextMix, PredictedMixes, TenantForecast
from cotenant.reporting.elements import DataTable, Element, Remark, Section, Sentence, Sentences, TableCell
from cotenant.reporting.elements import html as page
from cotenant.reporting.figures.style import warmth
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.run_command import mixes_setting, run_command, ways_setting
from cotenant.text import NOTHING, amount, duration, figure, listed, percent, ratio, size, with_interval

MOST_ROWS = 14
"""Maximum mixes shown without `--all`."""
COLUMNS = ("mix", "sharing", "slowest", "slowdown", "rests on")
COMPUTED = "A model computed these numbers; no such device was measured."


def prediction_elements(
    prediction: PredictedMixes, *, everything: bool = True, study: str | None = None, device: str | None = None
) -> list[Element]:
    """Answer, what would settle the way to share, mixes, suggested measurements and notes; a single mix by tenant.

    Args:
        prediction: The result.
        everything: Every mix, and every tenant of it.
        study: The study as on a command line, to suggest measurements; None: suggest none.
        device: Its device there; None: its own.
    """
    elements: list[Element] = [Sentence(answer(prediction), "answer"), *_open(prediction)]
    mixes = sorted(prediction.mixes, key=lambda mix: mix.worst)
    if len({mix.mix for mix in mixes}) == 1:
        for mix in mixes:
            words = f"under {mix.sharing}{_memory(mix)}{_power(mix)}{_common_basis(mix)}"
            elements += [Section(words, f"mix-{len(elements)}", (Sentence(words), _tenants(mix)))]
    elif mixes:
        shown = mixes if everything else mixes[:MOST_ROWS]
        elements.append(DataTable(COLUMNS, tuple(map(_row, shown)), numbers=frozenset({"slowdown"})))
        if len(mixes) > len(shown):
            more = amount(len(mixes) - len(shown), "more mix", "more mixes")
            elements.append(Remark(f"{more}: --all; one: --mix A+B"))
    if prediction.next and study is not None:
        elements += [
            Sentences(tuple(map(_next, prediction.next)), "Worth measuring next:"),
            Sentence(_command(study, prediction.next, device), command=True),
        ]
    return [*elements, *([Sentences(prediction.notes)] if prediction.notes else [])]


def prediction_page(prediction: PredictedMixes, *, source: str) -> str:
    """The complete page.

    Args:
        prediction: The result.
        source: The study it is for.
    """
    simulated = COMPUTED if DeviceName(prediction.device).simulated else ""
    first, *others = prediction_elements(prediction)
    maps = map_elements(prediction)
    elements = [
        Section("The answer", "answer", (first,)),
        *([Section("Time relative to alone", "slowdown", tuple(maps))] if maps else []),
        Section("Every mix", "mixes", tuple(others), folded=bool(maps) and len(prediction.mixes) > MOST_ROWS),
    ]
    return page.page(elements, title=f"Prediction for {source}", brand="cotenant predict", simulated=simulated)


# --- heat maps, for the page and for the report of an active run


MOST_MAPS = 3
"""That are open: a phone shows one below the other."""


def map_elements(prediction: PredictedMixes) -> list[Element]:
    """All pairs under each way to share, and every tenant of larger mixes; predicted cells hatched among others."""
    sharings = tuple(dict.fromkeys(mix.sharing for mix in prediction.mixes))
    known = any(_known(tenant) for mix in prediction.mixes for tenant in mix.tenants)
    maps = [table for sharing in sharings if (table := _pairs(prediction, sharing, hatch=known)) is not None]
    elements: list[Element] = [*maps[:MOST_MAPS]]
    if further := maps[MOST_MAPS:]:
        elements.append(Section("Pairs under other ways to share", "more-pairs", tuple(further), folded=True))
    if (groups := _groups(prediction.mixes, sharings, hatch=known)) is not None:
        elements.append(groups)
    if elements:
        how = "simulated" if DeviceName(prediction.device).simulated else "measured"
        hatched = f"Hatched cells are predicted, the others were {how}. " if known else "Every cell is predicted. "
        elements.append(Remark(f"Colours go from 1 to 4 times slower and more. {hatched}Below each its 90 % interval."))
    return elements


def _pairs(prediction: PredictedMixes, sharing: str, *, hatch: bool) -> DataTable | None:
    squares: dict[tuple[str, str], TableCell] = {}
    for mix in prediction.mixes:
        if len(mix.mix) == 2 and mix.sharing == sharing:
            for number, tenant in enumerate(mix.tenants):
                squares[tenant.tenant, mix.mix[1 - number]] = _square(tenant, hatch=hatch)
    names = tuple(dict.fromkeys(victim for victim, _ in squares))
    if not names:
        return None
    rows = tuple((name, *(squares.get((name, other)) for other in names)) for name in names)
    columns = ("tenant", *(f"beside {name}" for name in names))
    return DataTable(columns, rows, f"pairs under {sharing}", numbers=frozenset(columns[1:]))


def _groups(mixes: Sequence[MixForecast], sharings: tuple[str, ...], *, hatch: bool) -> DataTable | None:
    by_mix: dict[tuple[str, ...], dict[str, MixForecast]] = {}
    for mix in mixes:
        if len(mix.mix) > 2:
            by_mix.setdefault(mix.mix, {})[mix.sharing] = mix
    rows = tuple(row for ways in by_mix.values() for row in _lines(ways, sharings, hatch=hatch))
    return DataTable(("tenant", "in the mix", *sharings), rows, "groups", numbers=frozenset(sharings)) if rows else None


def _lines(
    ways: Mapping[str, MixForecast], sharings: tuple[str, ...], *, hatch: bool
) -> list[tuple[str | TableCell | None, ...]]:
    """One line per tenant; copies are one."""
    some = next(iter(ways.values()))
    lines: list[tuple[str | TableCell | None, ...]] = []
    for name in dict.fromkeys(some.mix):
        number = some.mix.index(name)
        squares = (
            _square(ways[sharing].tenants[number], hatch=hatch) if sharing in ways else None for sharing in sharings
        )
        lines.append((name, some.label, *squares))
    return lines


def _square(tenant: TenantForecast, *, hatch: bool) -> TableCell:
    number = tenant.slowdown
    return TableCell(
        ratio(number.est),
        beneath="" if number.lo is None or number.hi is None else f"{ratio(number.lo)} to {ratio(number.hi)}",
        warmth=warmth(number.est),
        faster=number.est < 1,
        hatched=hatch and not _known(tenant),
        hint=tenant.basis,
    )


def _known(tenant: TenantForecast) -> bool:
    """Whether the mix was measured or simulated, not predicted from others."""
    return tenant.basis.endswith(("block", "blocks", "elsewhere"))


# --- words


def answer(prediction: PredictedMixes) -> str:
    """The first sentence: how many mixes are known how, and the best and the worst of them."""
    mixes = [mix for mix in prediction.mixes if not _stuck(mix)]
    if not prediction.mixes:
        return f"nothing can be predicted on {prediction.device}"
    if not mixes:
        return _cannot_run(prediction.mixes[0])
    gentlest, worst = min(mixes, key=lambda mix: mix.worst), max(mixes, key=lambda mix: mix.worst)
    if len({mix.mix for mix in mixes}) == 1:
        others = f", {_worst(worst)} under {worst.sharing}" if len(mixes) > 1 else ""
        return (
            f"{worst.label}: beside each other the slowest takes {_worst(gentlest)} times as long as alone under "
            f"{gentlest.sharing}{others}"
        )
    counted = f"{amount(len(mixes), 'mix', 'mixes')} on {prediction.device}, {_counted(mixes, prediction.device)}"
    if ratio(gentlest.worst) == ratio(worst.worst):
        return f"{counted}: in each, the slowest tenant takes {_worst(worst)} times as long as alone"
    return (
        f"{counted}: least slowed is {gentlest.label} under {gentlest.sharing} (the slowest tenant takes "
        f"{_worst(gentlest)} times as long as alone), most {worst.label} under {worst.sharing} ({_worst(worst)})"
    )


def _stuck(mix: MixForecast) -> list[str]:
    """Tenants without a finite time."""
    return [tenant.tenant for tenant in mix.tenants if not math.isfinite(tenant.slowdown.est)]


def _cannot_run(mix: MixForecast) -> str:
    need = "" if mix.memory_bytes is None else f", or {size(mix.memory_bytes)} of memory are more than there is"
    return f"{mix.label}: {listed(_stuck(mix))} can't run under {mix.sharing}: more requests arrive than end{need}"


def _counted(mixes: Sequence[MixForecast], device: str) -> str:
    """How many mixes rest on more than the closed form."""
    known = [mix for mix in mixes if mix.tenants[0].basis.startswith(("measured", "simulated,"))]
    if DeviceName(device).simulated:
        return f"{len(known)} of them simulated kernel by kernel" if known else "all by the closed form"
    elsewhere = known and all(mix.tenants[0].basis == "measured elsewhere" for mix in known)
    return f"{len(known) or 'none'} of them measured{' elsewhere' if elsewhere else ''}"


def _slowest(mix: MixForecast) -> TenantForecast:
    return max(mix.tenants, key=lambda tenant: tenant.slowdown.est)


def _worst(mix: MixForecast) -> str:
    return with_interval(_slowest(mix).slowdown, ratio)


def _row(mix: MixForecast) -> tuple[str, ...]:
    worst = _slowest(mix)
    return mix.label, mix.sharing, worst.tenant, with_interval(worst.slowdown, ratio), _short(worst.basis)


def _short(basis: str) -> str:
    return basis.replace(" of this tenant", "")


def _tenants(mix: MixForecast) -> DataTable:
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
    numbers = frozenset(columns) - {"tenant", "basis"}
    return DataTable(tuple(columns), tuple(rows), numbers=numbers)


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


def _command(study: str, mixes: Sequence[NextMix], device: str | None) -> str:
    """Measures them all, in one run."""
    groups = dict.fromkeys(mix.mix for mix in mixes)
    ways = dict.fromkeys(mix.sharing for mix in mixes)
    return run_command(study, [mixes_setting(groups, "solo"), ways_setting(ways)], device=device)


def _open(prediction: PredictedMixes) -> list[Element]:
    """Of which mixes the gentlest way to share is open, and the measurement that settles the one that matters most."""
    if not prediction.open:
        return []
    most = prediction.open[0]
    first, *gentler = most.ways
    count = len({mix.mix for mix in prediction.mixes})
    opened, whose = ("T", "the") if count == 1 else (f"For {len(prediction.open)} of {count} mixes t", "its")
    above_all = "" if count == 1 else f", above all for {most.label}"
    sentence = (
        f"{opened}he ranges leave open which way is gentlest{above_all}: {whose} slowest tenant may take up to "
        f"{ratio(most.loses)} times as long under {first} as under {listed(gentler, 'or')}"
    )
    if most.minutes is None:
        return [Sentence(f"{sentence}; measure it under each")]
    device = DeviceName(prediction.device)
    where = f" on a real {device.model}" if device.simulated else ""
    tell = f"{sentence}. At most {duration(60 * most.minutes)} of measuring{where} would tell:"
    return [Sentence(tell), Sentence(most.command, command=True)]
