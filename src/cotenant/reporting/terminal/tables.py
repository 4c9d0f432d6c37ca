"""The result of one or several runs, for a terminal: settings, tables, failed checks, sentences."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.dvfs import Sweep, sentence
from cotenant.analyse.estimates.quantiles import QuantileEstimate
from cotenant.analyse.sharing.capacity import CapacityCurve
from cotenant.analyse.sharing.cells import Cell, load_said, settings_said
from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
from cotenant.measure.checks import CHECKS, hint_for
from cotenant.reporting.terminal.grouped import Fitting, Grouped, Section, listing
from cotenant.reporting.terminal.literal import literal
from cotenant.study.mixes import own_loads
from cotenant.text import NOTHING, Interval, amount, figure, in_time, ratio, with_interval, without_interval

VERDICT_STYLES = {"valid": "green", "unstable": "yellow", "invalid": "bold red"}
MOST_NAMES = 3
ALONE_HEADING = "alone on the entire device"


def summary_tables(
    summary: Summary,
    reasons: Mapping[str, str] = MappingProxyType({}),
    windows: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[RenderableType, ...]:
    """Tenants and mixes for each condition measured (device, settings, load); then failures."""
    parts: list[RenderableType] = []
    conditions = list(dict.fromkeys(_condition(tenant.cell) for tenant in summary.tenants))
    for condition in conditions:
        tenants = [tenant for tenant in summary.tenants if _condition(tenant.cell) == condition]
        mixes = [mix for mix in summary.mixes if _condition(mix.cell) == condition and not mix.cell.solo]
        parts.append(_title(tenants[0].cell, several=len({run for run, *_ in conditions}) > 1))
        parts.append(tenants_table(tenants))
        if any(tenant.tokens is not None for tenant in tenants):
            parts.append(tokens_table(tenants))
        if mixes:
            parts.append(mixes_table(mixes))
    failed = failed_checks(summary.mixes, reasons, windows)
    return (*parts, failed) if failed is not None else tuple(parts)


def _condition(cell: Cell) -> tuple[str, str, str, str]:
    return cell.run, cell.device, cell.settings, cell.load


def _title(cell: Cell, *, several: bool) -> Text:
    settings = "" if cell.settings in {"", "{}"} else f", {settings_said(cell.settings)}"
    run = f", run {cell.run}" if several else ""
    return Text(literal(f"{load_said(cell.load)} on {cell.device}{settings}{run}"), "bold underline")


def _heading(cell: Cell) -> str:
    return ALONE_HEADING if cell.solo else f"{cell.mix}, {cell.sharing}"


def tenants_table(tenants: Sequence[TenantSummary]) -> Fitting:
    """One line per tenant under a heading per mix and sharing; with as many intervals as the page has room for."""
    shared = any(not tenant.cell.solo for tenant in tenants)
    columns = ("tenant", "requests/s", "p50 ms", "p99 ms", *(("slowdown",) if shared else ()))

    def table(rest: Callable[[Interval], str], median: Callable[[Interval], str]) -> Grouped:
        sections: dict[str, list[tuple[Text, ...]]] = {}
        for tenant in tenants:
            cell = tenant.cell
            row = (
                Text(literal(tenant.tenant)),
                Text(rest(tenant.throughput_rps)),
                _quantile_text(tenant.latency_ms["p50"], median),
                _quantile_text(tenant.latency_ms["p99"], rest),
                *((Text("" if cell.solo else _slowdown(tenant), "bold"),) if shared else ()),
            )
            sections.setdefault(_heading(cell), []).append(row)
        return Grouped(columns, [Section(Text(literal(name), "cyan"), tuple(rows)) for name, rows in sections.items()])

    return Fitting(
        (
            table(with_interval, with_interval),
            table(without_interval, with_interval),
            table(without_interval, without_interval),
        )
    )


def tokens_table(tenants: Sequence[TenantSummary]) -> Fitting:
    """The same for generating tenants: times to first token, per output token and between tokens."""
    columns = ("tenant", "tokens/s", "TTFT p50 ms", "p99", "TPOT p50 ms", "p99", "ITL p99 ms")

    def table(form: Callable[[Interval], str]) -> Grouped:
        sections: dict[str, list[tuple[Text, ...]]] = {}
        for tenant in tenants:
            if tenant.tokens is None:
                continue
            row = (
                Text(literal(tenant.tenant)),
                Text(form(tenant.tokens.tokens_per_s)),
                *(
                    Text(NOTHING if quantile.est is None else form(quantile))
                    for quantile in (
                        tenant.tokens.ttft_ms["p50"],
                        tenant.tokens.ttft_ms["p99"],
                        tenant.tokens.tpot_ms["p50"],
                        tenant.tokens.tpot_ms["p99"],
                        tenant.tokens.itl_ms["p99"],
                    )
                ),
            )
            sections.setdefault(_heading(tenant.cell), []).append(row)
        return Grouped(columns, [Section(Text(literal(name), "cyan"), tuple(rows)) for name, rows in sections.items()])

    return Fitting((table(with_interval), table(without_interval)))


def mixes_table(mixes: Sequence[MixSummary]) -> Fitting:
    """One line per sharing under a heading per mix."""
    columns = ("sharing", "STP", "ANTT", "Jain", "fairness", "verdict")

    def table(antt: Callable[[Interval], str], evenness: Callable[[Interval], str]) -> Grouped:
        sections: dict[str, list[tuple[Text, ...]]] = {}
        for mix in mixes:
            row = (
                Text(literal(mix.cell.sharing)),
                Text(with_interval(mix.metrics["stp"], ratio), "bold"),
                Text(antt(mix.metrics["antt"])),
                Text(evenness(mix.metrics["jain"])),
                Text(evenness(mix.metrics["fairness"])),
                Text(mix.verdict, VERDICT_STYLES[mix.verdict]),
            )
            sections.setdefault(mix.cell.mix, []).append(row)
        return Grouped(columns, [Section(Text(literal(name), "cyan"), tuple(rows)) for name, rows in sections.items()])

    def whole(number: Interval) -> str:
        return with_interval(number, ratio)

    def short(number: Interval) -> str:
        return without_interval(number, ratio)

    return Fitting((table(whole, whole), table(whole, short), table(short, short)))


def sentence_list(sentences: Sequence[str]) -> Table:
    """Sentences as a bulleted list."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=1)
    table.add_column(overflow="fold")
    for line in sentences:
        table.add_row("•", Text(literal(line)))
    return table


def failed_checks(
    mixes: Sequence[MixSummary],
    reasons: Mapping[str, str] = MappingProxyType({}),
    windows: Mapping[str, Any] = MappingProxyType({}),
) -> Text | None:
    """Every failed check: the number of trials, their mixes, the latest reason, and a remedy."""
    trials: Counter[str] = Counter()
    where: dict[str, list[str]] = {}
    for mix in mixes:
        trials.update(mix.failed_checks)
        for name in mix.failed_checks:
            where.setdefault(name, []).append(f"{mix.cell.mix} ({mix.cell.sharing})")
    if not trials:
        return None
    text = Text()
    for name, count in trials.most_common():
        check = CHECKS.get(name)
        text.append("\n" if text else "")
        text.append(literal(name), VERDICT_STYLES[check.when_failed if check else "invalid"])
        text.append(f" failed in {amount(count, 'trial')} of {literal(_some(where[name]))}")
        if name in reasons:
            text.append(f"\n  the latest: {literal(reasons[name])}")
        if check:
            text.append("\n  hint: ", "cyan").append(hint_for(check, windows))
    return text


def _some(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - MOST_NAMES
    return ", ".join(unique[:MOST_NAMES]) + (f" and {more} more mixes" if more > 0 else "")


def _slowdown(tenant: TenantSummary) -> str:
    at_least = "≥ " if tenant.slowdown_is_least else ""
    return at_least + with_interval(tenant.slowdown, ratio)


def _quantile_text(quantile: QuantileEstimate, form: Callable[[Interval], str]) -> Text:
    if quantile.est is not None:
        return Text(form(quantile))
    if quantile.needs_n is not None:
        return Text(f"{NOTHING} (needs {quantile.needs_n - quantile.n:,} more)", "dim")
    return Text("∞" if quantile.n else NOTHING)  # so many were unfinished that the quantile is among them


# --- capacity for a terminal: rate against attainment, and the knee, for each tenant alone and shared


def capacity_table(curves: Sequence[CapacityCurve]) -> tuple[RenderableType, ...]:
    """One line per rate, under a heading per tenant of each mix."""
    if not curves:
        return ()
    sections = []
    for curve in curves:
        where = "alone" if curve.cell.solo else f"in {curve.cell.mix}, {curve.cell.sharing}"
        where += f", {curve.cell.load}" if curve.cell.load else ""
        rows = tuple(
            (
                Text(figure(level.rate_rps)),
                Text(in_time(level.attainment), "" if level.kept else "red"),
                Text(in_time(level.quantile)),
                Text(NOTHING if level.goodput_rps is None else figure(level.goodput_rps)),
                Text("knee" if level is curve.knee and curve.broken else "", "bold"),
            )
            for level in curve.levels
        )
        sections.append(Section(Text(literal(f"{curve.tenant} {where}"), "cyan"), rows))
    return (Grouped(("requests/s asked", "in time", "wanted", "in time, requests/s", ""), sections),)


# --- sweeps over clocks and power limits, for a terminal

_UNITS = {"clock_mhz": "MHz", "power_w": "W"}
_TITLES = {"clock_mhz": "by clock", "power_w": "by power limit"}


def dvfs_parts(sweeps: Sequence[Sweep]) -> tuple[RenderableType, ...]:
    """One table per job, from no limit to the lowest, then a sentence each."""
    if not sweeps:
        return ()
    parts: list[RenderableType] = []
    for sweep in sweeps:
        on = f" on {sweep.devices} devices" if sweep.devices > 1 else ""
        rows = [
            (
                "no limit" if step.value is None else f"{step.value:.0f} {_UNITS[sweep.control]}",
                figure(step.clock_mhz),
                figure(step.time_ms),
                figure(step.power_w),
                figure(step.energy_j) + (" least" if step is sweep.best else ""),
                step.readings,
            )
            for step in sweep.steps
        ]
        parts += [
            Text(literal(f"{sweep.job} {_TITLES[sweep.control]}{on}"), "bold"),
            listing(("set", "clock MHz", "ms", "W", "J/request", "trials"), rows),
        ]
    return (*parts, sentence_list([sentence(sweep) for sweep in sweeps]))


# --- the heading before any number: the study, the device, and the verdicts of its trials

VERDICTS = ("valid", "unstable", "invalid")


def heading(manifests: Sequence[Mapping[str, Any]], summary: Summary) -> Table:
    """A few lines per run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for manifest in manifests:
        if manifest.get("simulated"):
            table.add_row(
                Text("SIMULATED", "bold reverse magenta"), Text("a model computed this; nothing was measured")
            )
        for name, value in _settings(manifest, summary).items():
            table.add_row(name, Text(literal(value)))
    return table


def _settings(manifest: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    described = manifest.get("device_description")
    model = (
        next((str(described[key]) for key in ("model", "name") if key in described), "")
        if isinstance(described, Mapping)
        else ""
    )
    ended = manifest.get("why") or manifest.get("state") or NOTHING
    return {
        "study": f"{manifest.get('study_name', NOTHING)}, seed {manifest.get('seed', NOTHING)}",
        "device": f"{manifest.get('device', NOTHING)}{f' ({model})' if model else ''}",
        "run": str(manifest.get("run", NOTHING)),
        **_loads(manifest),
        "trials": _trials(str(manifest.get("run")), summary),
        "ended": str(ended),
        **_left_out(manifest),
        **{f"error, {kind}": sentence for kind, sentence in errors_by_class(manifest).items()},
    }


def _loads(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Loads of tenants that define their own."""
    loads = own_loads(manifest)
    return {"loads": ", ".join(f"{tenant} {load}" for tenant, load in loads.items())} if loads else {}


def _left_out(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Sharings of `sharing: all` that this device doesn't support."""
    left_out = manifest.get("left_out")
    return (
        {"left out": "; ".join(str(sharing) for sharing in left_out)} if isinstance(left_out, list) and left_out else {}
    )


def _trials(run: str, summary: Summary) -> str:
    count: Counter[str] = Counter()
    for mix in summary.mixes:
        if mix.cell.run == run:
            count.update(mix.trials_by_verdict)
    verdicts = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
    return f"{count.total()}: {verdicts}" if verdicts else "none"


# --- errors of simulated figures by class, as recorded by the run


def errors_by_class(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Sentences by class; empty for a measured run."""
    simulation = manifest.get("simulation")
    errors = simulation.get("error_by_class") if isinstance(simulation, Mapping) else None
    if not isinstance(errors, Mapping):
        return {}
    return {
        str(kind): "; ".join(map(str, sentences))
        for kind, sentences in errors.items()
        if isinstance(sentences, list) and sentences
    }
