"""The result of runs: the answer, settings, every table, failed checks and findings."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cotenant.analyse.decision import Answer
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.dvfs import sentence as sweep_sentence
from cotenant.analyse.result import Result
from cotenant.analyse.sharing import (
    CHECK_WORDS,
    CapacityCurve,
    Cell,
    MixSummary,
    Summary,
    TenantSummary,
    capacity_curves,
    load_said,
    settings_said,
)
from cotenant.measure.checks import CHECKS, hint_for
from cotenant.reporting.elements import (
    DataTable,
    Element,
    Facts,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Value,
    grouped,
)
from cotenant.reporting.elements.markdown import to_markdown
from cotenant.reporting.main_table import main_table
from cotenant.reporting.results.activity import device_elements
from cotenant.reporting.results.copied import copies_grouped
from cotenant.reporting.results.decided import TRIALS, answer_elements, options_table, side_by_side_elements
from cotenant.reporting.results.methods import methods_elements
from cotenant.store.manifest import own_loads
from cotenant.tenancy.interval import Number
from cotenant.text import NOTHING, Ranged, amount, figure, in_time, ratio, with_interval, without_interval

VERDICTS = ("valid", "unstable", "invalid")
MOST_NAMES = 3
ALONE_HEADING = "alone on the entire device"
Form = Callable[[Ranged], str]


def answer_screen(result: Result) -> list[Element]:
    """The answer, its precision, and the device, on one screen."""
    measured = [manifest for manifest in result.manifests if not manifest.get("simulated")]
    # The precision of a simulated run is that of its samples; the model's error is in the intervals.
    good_to = [accuracy.sentence() for accuracy in result.summary.accuracy.values()] if measured else []
    ending = Remark(" ".join([*result.notes, *good_to, _where(result)]))
    return [*_answer(result, everything=False), ending]


def measured_elements(result: Result) -> list[Element]:
    """Everything, by section."""
    options = [options_table(result.answer)] if result.answer.choices else []
    return [
        Section("The answer", "answer", (*_answer(result, everything=True), *options)),
        Section("The run", "run", tuple(run_facts(manifest, result.summary) for manifest in result.manifests)),
        *table_elements(result),
        Section("In sentences", "sentences", (Sentences((*result.notes, *result.sentences)),)),
        Section("Methods and citation", "methods", tuple(methods_elements(result))),
    ]


def measured_markdown(result: Result) -> str:
    """The whole result, for a pull request."""
    return to_markdown([Section("cotenant report", "report", tuple(measured_elements(result)))], level=1) + "\n"


def table_elements(result: Result) -> list[Element]:
    """Every number: tenants and mixes by condition, capacity, activity of the device, sweeps; then failed checks."""
    sections = [Section("Tenants", "tenants", tuple(summary_elements(best_layouts(result))))]
    if curves := capacity_curves(result.summary):
        sections.append(Section("Capacity", "capacity", (capacity_table(curves),)))
    hidden = other_layouts(result.answer)
    if uses := [use for use in result.device_use if use.cell not in hidden]:
        sections.append(Section("Device activity", "device", tuple(device_elements(uses))))
    if result.sweeps:
        sections.append(Section("Clocks and power limits", "sweeps", tuple(sweep_elements(result.sweeps))))
    if checks := failed_checks(result.mixes, result.reasons, result.manifests[0].get("windows", {})):
        sections.append(Section("Failed checks", "failed", (checks,)))
    return [*sections]


def best_layouts(result: Result) -> Summary:
    """The summary without shares that were tried but are not the best of their mode: the options list them."""
    hidden = other_layouts(result.answer)
    return replace(
        result.summary,
        tenants=tuple(tenant for tenant in result.summary.tenants if tenant.cell not in hidden),
        mixes=tuple(mix for mix in result.summary.mixes if mix.cell not in hidden),
    )


def other_layouts(answer: Answer) -> set[Cell]:
    """Shares that are not the best of their mode."""
    hidden: set[Cell] = set()
    for choice in answer.choices:
        modes: set[str] = set()
        for option in choice.options:
            mode = option.cell.sharing.partition("[")[0]
            if mode in modes:
                hidden.add(option.cell)
            modes.add(mode)
    return hidden


def _answer(result: Result, *, everything: bool) -> list[Element]:
    beside = result.side_by_side
    if beside is not None:
        return side_by_side_elements(beside, everything=everything)
    main = main_table(result)
    table = None if main is None else DataTable(main.columns, main.rows)
    return answer_elements(result.answer, result.opening, table, everything=everything)


def _where(result: Result) -> str:
    devices = list(dict.fromkeys(str(manifest.get("device", "?")) for manifest in result.manifests))
    valid = sum(mix.trials_by_verdict.get("valid", 0) for mix in result.mixes)
    trials = sum(sum(mix.trials_by_verdict.values()) for mix in result.mixes)
    simulated = any(manifest.get("simulated") for manifest in result.manifests)
    computed = " SIMULATED: a model computed this; nothing was measured." if simulated else ""
    where = f"{valid:,} of {trials:,} trials valid on {', '.join(devices)}."
    return f"{where}{_most_failed(result)}{computed} Everything: --all."


def _most_failed(result: Result) -> str:
    """The most frequently failed check, and why."""
    failed: Counter[str] = Counter()
    for mix in result.mixes:
        failed.update(mix.failed_checks)
    if not failed:
        return ""
    name, trials = failed.most_common(1)[0]
    why = f"; the last time: {reason}" if (reason := result.reasons.get(name)) else ""
    words = CHECK_WORDS.get(name, name)
    return f" {words[0].upper()}{words[1:]} in {amount(trials, 'trial')}{why}."


# --- the study, the device, and the verdicts of its trials


def run_facts(manifest: Mapping[str, Any], summary: Summary) -> Facts:
    """The study, the device, the trials and how it ended."""
    return Facts(tuple(settings_of(manifest, summary).items()), simulated=bool(manifest.get("simulated")))


def settings_of(manifest: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    """The main facts of a run."""
    described = manifest.get("device_description")
    known = described if isinstance(described, Mapping) else {}
    model = next((str(known[key]) for key in ("model", "name") if key in known), "")
    loads = own_loads(manifest)
    left_out = manifest.get("left_out")
    return {
        "study": f"{manifest.get('study_name', NOTHING)}, seed {manifest.get('seed', NOTHING)}",
        "device": f"{manifest.get('device', NOTHING)}{f' ({model})' if model else ''}",
        "run": str(manifest.get("run", NOTHING)),
        **({"loads": ", ".join(f"{tenant} {load}" for tenant, load in loads.items())} if loads else {}),
        "trials": _trials(str(manifest.get("run")), summary),
        "ended": str(manifest.get("why") or manifest.get("state") or NOTHING),
        **({"left out": "; ".join(map(str, left_out))} if isinstance(left_out, list) and left_out else {}),
        **{f"error, {kind}": sentence for kind, sentence in errors_by_class(manifest).items()},
    }


def errors_by_class(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Errors of simulated figures by class, as recorded by the run; empty for a measured run."""
    simulation = manifest.get("simulation")
    errors = simulation.get("error_by_class") if isinstance(simulation, Mapping) else None
    if not isinstance(errors, Mapping):
        return {}
    return {
        str(kind): "; ".join(map(str, sentences))
        for kind, sentences in errors.items()
        if isinstance(sentences, list) and sentences
    }


def _trials(run: str, summary: Summary) -> str:
    count: Counter[str] = Counter()
    for mix in summary.mixes:
        if mix.cell.run == run:
            count.update(mix.trials_by_verdict)
    verdicts = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
    return f"{count.total()}: {verdicts}" if verdicts else "none"


# --- tenants and mixes


def summary_elements(summary: Summary) -> list[Element]:
    """Tenants and mixes for each condition measured (device, settings, load)."""
    elements: list[Element] = []
    conditions = list(dict.fromkeys(_condition(tenant.cell) for tenant in summary.tenants))
    for condition in conditions:
        tenants = copies_grouped(tenant for tenant in summary.tenants if _condition(tenant.cell) == condition)
        mixes = [mix for mix in summary.mixes if _condition(mix.cell) == condition and not mix.cell.solo]
        elements += [_title(tenants[0].cell, several=len({run for run, *_ in conditions}) > 1), tenants_table(tenants)]
        if any(tenant.tokens is not None for tenant in tenants):
            elements.append(tokens_table(tenants))
        if mixes:
            elements.append(mixes_table(mixes))
    return elements


def _condition(cell: Cell) -> tuple[str, str, str, str]:
    return cell.run, cell.device, cell.settings, cell.load


def _title(cell: Cell, *, several: bool) -> Sentence:
    settings = "" if cell.settings in {"", "{}"} else f", {settings_said(cell.settings)}"
    run = f", run {cell.run}" if several else ""
    return Sentence(f"{load_said(cell.load)} on {cell.device}{settings}{run}", "title")


def _heading(cell: Cell) -> str:
    return ALONE_HEADING if cell.solo else f"{cell.mix}, {cell.sharing}"


def tenants_table(tenants: Sequence[TenantSummary]) -> DataTable:
    """One line per tenant under a heading per mix and sharing; with as many intervals as there is room for."""
    shared = any(not tenant.cell.solo for tenant in tenants)
    columns = ("tenant", "requests/s", "p50 ms", "p99 ms", *(("slowdown",) if shared else ()))

    def table(rest: Form, median: Form, narrow: DataTable | None = None) -> DataTable:
        rows: list[tuple[str, tuple[Value, ...]]] = [
            (
                _heading(tenant.cell),
                (
                    tenant.tenant,
                    rest(tenant.throughput_rps),
                    _quantile(tenant.latency_ms["p50"], median),
                    _quantile(tenant.latency_ms["p99"], rest),
                    *((TableCell("" if tenant.cell.solo else _slowdown(tenant), tone="answer"),) if shared else ()),
                ),
            )
            for tenant in tenants
        ]
        return grouped(columns, rows, narrow)

    narrowest = table(without_interval, without_interval)
    return table(with_interval, with_interval, table(without_interval, with_interval, narrowest))


def tokens_table(tenants: Sequence[TenantSummary]) -> DataTable:
    """The same for generating tenants: times to first token, per output token and between tokens."""
    columns = ("tenant", "tokens/s", "TTFT p50 ms", "p99", "TPOT p50 ms", "p99", "ITL p99 ms")

    def table(form: Form, narrow: DataTable | None = None) -> DataTable:
        rows: list[tuple[str, tuple[Value, ...]]] = []
        for tenant in tenants:
            if tenant.tokens is None:
                continue
            times = (tenant.tokens.ttft_ms["p50"], tenant.tokens.ttft_ms["p99"], tenant.tokens.tpot_ms["p50"],
                     tenant.tokens.tpot_ms["p99"], tenant.tokens.itl_ms["p99"])  # fmt: skip
            texts = (NOTHING if quantile.est is None else form(quantile) for quantile in times)
            rows.append((_heading(tenant.cell), (tenant.tenant, form(tenant.tokens.tokens_per_s), *texts)))
        return grouped(columns, rows, narrow)

    return table(with_interval, table(without_interval))


def mixes_table(mixes: Sequence[MixSummary]) -> DataTable:
    """One line per sharing under a heading per mix."""
    columns = ("sharing", "STP", "ANTT", "Jain", "fairness", "verdict")

    def table(antt: Form, evenness: Form, narrow: DataTable | None = None) -> DataTable:
        rows: list[tuple[str, tuple[Value, ...]]] = [
            (
                mix.cell.mix,
                (
                    mix.cell.sharing,
                    TableCell(with_interval(mix.metrics["stp"], ratio), tone="answer"),
                    antt(mix.metrics["antt"]),
                    evenness(mix.metrics["jain"]),
                    evenness(mix.metrics["fairness"]),
                    TableCell(mix.verdict, tone=TRIALS[mix.verdict]),
                ),
            )
            for mix in mixes
        ]
        return grouped(columns, rows, narrow)

    def whole(number: Ranged) -> str:
        return with_interval(number, ratio)

    def short(number: Ranged) -> str:
        return without_interval(number, ratio)

    return table(whole, whole, table(whole, short, table(short, short)))


def _slowdown(tenant: TenantSummary) -> str:
    at_least = "≥ " if tenant.slowdown_is_least else ""
    return at_least + with_interval(tenant.slowdown, ratio)


def _quantile(quantile: Number, form: Form) -> Value:
    if quantile.est is not None:
        return form(quantile)
    if quantile.needs_n is not None:
        return TableCell(f"{NOTHING} (needs {quantile.needs_n - quantile.n:,} more)", tone="quiet")
    return "∞" if quantile.n else NOTHING  # so many were unfinished that the quantile is among them


def failed_checks(
    mixes: Sequence[MixSummary],
    reasons: Mapping[str, str] = MappingProxyType({}),
    windows: Mapping[str, Any] = MappingProxyType({}),
) -> Sentences | None:
    """Every failed check: the number of trials, their mixes, the latest reason, and a remedy."""
    trials: Counter[str] = Counter()
    where: dict[str, list[str]] = {}
    for mix in mixes:
        trials.update(mix.failed_checks)
        for name in mix.failed_checks:
            where.setdefault(name, []).append(f"{mix.cell.mix} ({mix.cell.sharing})")
    lines: list[str] = []
    for name, count in trials.most_common():
        check = CHECKS.get(name)
        lines.append(f"{name} failed in {amount(count, 'trial')} of {_some(where[name])}")
        if name in reasons:
            lines.append(f"  the latest: {reasons[name]}")
        if check:
            lines.append(f"  hint: {hint_for(check, windows)}")
    return Sentences(tuple(lines), plain=True) if lines else None


def _some(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - MOST_NAMES
    return ", ".join(unique[:MOST_NAMES]) + (f" and {more} more mixes" if more > 0 else "")


# --- capacity, and sweeps over clocks and power limits


def capacity_table(curves: Sequence[CapacityCurve]) -> DataTable:
    """Rate against attainment, and the knee: a line per rate, under a heading per tenant alone and in each mix."""
    rows: list[tuple[str, tuple[Value, ...]]] = []
    for curve in curves:
        where = "alone" if curve.cell.solo else f"in {curve.cell.mix}, {curve.cell.sharing}"
        where += f", {curve.cell.load}" if curve.cell.load else ""
        rows += [
            (
                f"{curve.tenant} {where}",
                (
                    figure(level.rate_rps),
                    TableCell(in_time(level.attainment), tone="plain" if level.kept else "bad"),
                    in_time(level.quantile),
                    NOTHING if level.goodput_rps is None else figure(level.goodput_rps),
                    TableCell("knee" if level is curve.knee and curve.broken else "", tone="answer"),
                ),
            )
            for level in curve.levels
        ]
    return grouped(("requests/s asked", "in time", "wanted", "in time, requests/s", ""), rows)


_UNITS = {"clock_mhz": "MHz", "power_w": "W"}
_TITLES = {"clock_mhz": "by clock", "power_w": "by power limit"}


def sweep_elements(sweeps: Sequence[Sweep]) -> list[Element]:
    """One table per job, from no limit to the lowest, then a sentence each."""
    elements: list[Element] = []
    for sweep in sweeps:
        on = f" on {sweep.devices} devices" if sweep.devices > 1 else ""
        rows = tuple(
            (
                "no limit" if step.value is None else f"{step.value:.0f} {_UNITS[sweep.control]}",
                figure(step.clock_mhz),
                figure(step.time_ms),
                figure(step.power_w),
                figure(step.energy_j) + (" least" if step is sweep.best else ""),
                step.readings,
            )
            for step in sweep.steps
        )
        columns = ("set", "clock MHz", "ms", "W", "J/request", "trials")
        title = Sentence(f"{sweep.job} {_TITLES[sweep.control]}{on}", "title")
        elements += [title, DataTable(columns, rows, numbers=frozenset(columns[1:]))]
    return [*elements, Sentences(tuple(sweep_sentence(sweep) for sweep in sweeps))]
