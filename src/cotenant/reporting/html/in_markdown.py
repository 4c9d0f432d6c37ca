"""The report as Markdown: the decision, tables and sentences, short enough for a pull request."""

from cotenant.analyse.decision.wording import mix_name, objectives, slowdowns
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.html.tenant_lines import HEADS, tenant_lines, token_lines
from cotenant.reporting.terminal.answer import WORDS
from cotenant.reporting.terminal.device_use import cells, shown_columns, sources_sentence
from cotenant.reporting.terminal.markdown import bullets, escaped, table
from cotenant.reporting.terminal.tables import errors_by_class
from cotenant.text import ratio, with_interval, without_interval


def markdown_report(material: Material) -> str:
    """The complete text. Names are escaped: they can be neither markup nor HTML."""
    runs = [
        f"- {f'**{run.letter}** ' if len(material.runs) > 1 else ''}"
        + escaped(
            f"{run.manifest.get('study_name') or 'a run'} on {run.manifest.get('device') or '?'}, run {run.identity}"
        )
        for run in material.runs
    ]
    parts = [
        "# cotenant report",
        "\n".join(runs),
        "> **SIMULATED**: a model computed these numbers; nothing was measured." if material.simulated else "",
        _errors(material),
        "## The answer",
        "\n\n".join(f"**{escaped(sentence)}**" for sentence in material.opening)
        if material.answer.choices
        else _nothing(material),
        _mixes(material),
        "## Tenants",
        _tenants(material),
        _tokens(material),
        "## Device activity" if material.device_use else "",
        _device(material),
        "## In sentences",
        bullets(material.sentences),
        _not_valid(material),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _errors(material: Material) -> str:
    """Errors of simulated figures by class; once if runs agree."""
    errors = dict.fromkeys(
        f"- {kind}: {escaped(sentence)}"
        for run in material.runs
        for kind, sentence in errors_by_class(run.manifest).items()
    )
    return "\n".join(("Error of such figures against real GPUs:", "", *errors)) if errors else ""


def _mixes(material: Material) -> str:
    """One line per mix and way to share, grouped by mix, best first."""
    names = material.names
    head = ("mix", "way to share", "work", "slowdowns", "objectives", "fairness", "verdict on the mix", "trials")
    rows = [
        (
            f"{names.run(cell.run)} {mix_name(option.standings)} {names.condition(Condition.of(cell))}".strip(),
            cell.sharing,
            with_interval(option.work, ratio),
            slowdowns(option),
            objectives(option),
            without_interval(option.mix.metrics["fairness"], ratio),
            WORDS[choice.verdict] if option is choice.best else "",
            option.mix.verdict,
        )
        for choice in material.answer.choices
        for option in choice.options
        if (cell := option.cell)
    ]
    return table(head, rows)


def _tenants(material: Material) -> str:
    cells: dict[Cell, list[TenantSummary]] = {}
    for tenant in material.summary.tenants:
        cells.setdefault(tenant.cell, []).append(tenant)
    rows = [
        (material.names.cell(cell), line.tenant, line.throughput, line.p50, line.p99, line.slowdown, line.objective)
        for cell, tenants in cells.items()
        for line in tenant_lines(tenants)
    ]
    return table(("where", "tenant", "requests/s", "p50 ms", "p99 ms", "slowdown", "objective"), rows)


def _tokens(material: Material) -> str:
    rows = [
        (material.names.cell(tenant.cell), line.tenant, *line.values)
        for tenant in material.summary.tenants
        for line in token_lines([tenant])
    ]
    return table(("where", "tenant", *HEADS), rows) if rows else ""


def _device(material: Material) -> str:
    if not material.device_use:
        return ""
    columns = shown_columns(material.device_use)
    rows = [(material.names.cell(use.cell), *cells(use, columns)) for use in material.device_use]
    head = ("where", *(label for label, _, _ in columns))
    return f"{table(head, rows)}\n\n{escaped(sources_sentence(material.device_use))}"


def _nothing(material: Material) -> str:
    if not material.trials:
        return "The run has no trials yet."
    if all(trial.verdict == "invalid" for trial in material.trials):
        return "No trial is valid, so none of these numbers are reliable. The reasons are below."
    return "No mix was measured: tenants ran alone."


def _not_valid(material: Material) -> str:
    bad = [trial for trial in material.trials if trial.verdict != "valid"]
    if not bad:
        return ""
    reasons: dict[str, int] = {}
    for trial in bad:
        for reason in trial.reasons or trial.failed_checks:
            reasons[reason] = reasons.get(reason, 0) + 1
    commonest = sorted(reasons, key=lambda reason: -reasons[reason])[:20]
    lines = "\n".join(f"- {escaped(reason)} ({reasons[reason]}x)" for reason in commonest)
    return f"## Trials that are not valid: {len(bad)} of {len(material.trials)}\n\n{lines}"
