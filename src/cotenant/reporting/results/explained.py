"""An explanation, and the definition of a metric."""

from collections.abc import Sequence
from io import StringIO
from textwrap import wrap

from rich.console import Console

from cotenant.analyse.decision import headline
from cotenant.analyse.explanation import Explanation, explanation_sentences, main_sentences, mix_name
from cotenant.analyse.sharing import Metric, settings_said
from cotenant.reporting.elements import DataTable, Element, Facts, Remark, Section, Sentence, Sentences, grouped
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.text import NOTHING, amount, figure, literal, percent, ratio, with_interval

MOST_LINES = 40
"""Maximum lines without --all."""
MOST_ALONE = 8
ALONE = ("tenant alone", "bound by", "ms", "compute", "bandwidth", "cores")


def explanation_elements(explanation: Explanation) -> list[Element]:
    """The answer, tenants alone, the parts of each slowdown, then sentences."""
    elements: list[Element] = [
        *_answer(explanation),
        Section("Tenants alone", "alone", (DataTable(ALONE, tuple(_alone(explanation))),)),
    ]
    if explanation.splits:
        elements.append(Section("Slowdowns and their parts", "parts", (_splits(explanation),)))
    findings = Sentences(tuple(explanation_sentences(explanation)))
    return [*elements, Section("Findings", "findings", (findings,))]


def explanation_screen(explanation: Explanation, width: int) -> list[Element]:
    """At most `MOST_LINES` lines, most important first: the answer, tenants alone, and causes.

    Args:
        explanation: The explanation.
        width: Width of the terminal, in characters.
    """
    answer, rows, sentences = _answer(explanation), _alone(explanation), main_sentences(explanation)
    table = DataTable(ALONE, tuple(rows[:MOST_ALONE]))
    more = [Remark(f"and {amount(len(rows) - MOST_ALONE, 'more tenant')}")] if len(rows) > MOST_ALONE else []
    ending = f"{'Simulated: nothing was measured. ' * explanation.simulated}Every slowdown and its parts: --all."
    # Blank lines between the parts and the last line take what is left of the screen.
    height = len(Console(width=width, file=StringIO()).render_lines(to_terminal([table])[0]))
    said = _lines([sentence.text for sentence in answer], width) + _lines([ending], width)
    kept = _fitting(sentences, MOST_LINES - 5 - said - height - 2 * len(more), width)
    dropped = len(sentences) - len(kept)
    return [
        *answer,
        table,
        *more,
        *([Sentences(tuple(kept))] if kept else ()),
        Remark(f"{amount(dropped, 'more sentence')} left out. {ending}" if dropped else ending),
    ]


def _answer(explanation: Explanation) -> list[Sentence]:
    return [Sentence(text, "answer") for text in headline(explanation.answer)]


def _fitting(sentences: Sequence[str], room: int, width: int) -> list[str]:
    kept: list[str] = []
    for sentence in sentences:
        room -= _lines([sentence], width - 2)
        if room < 0:
            break
        kept.append(sentence)
    return kept


def _lines(sentences: Sequence[str], width: int) -> int:
    return sum(len(wrap(literal(sentence), max(20, width))) or 1 for sentence in sentences)


def metric_elements(metric: Metric) -> list[Element]:
    """A definition list, then the caveats."""
    title = Sentence(f"{metric.title} (`{metric.name}`)", "answer")
    return [title, Facts(tuple(metric_facts(metric).items())), Sentences(tuple(metric.caveats))]


def metric_facts(metric: Metric) -> dict[str, str]:
    """Facts about it, by title."""
    return {
        "what": metric.definition,
        "formula": metric.formula,
        "unit": metric.unit,
        "better": metric.better,
        "of": f"a {metric.of}" if metric.of in {"tenant", "mix", "comparison"} else "an explanation",
    }


def _alone(explanation: Explanation) -> list[tuple[str, ...]]:
    loads, settings = [
        len({getattr(tenant, name) for tenant in explanation.tenants}) > 1 for name in ("load", "settings")
    ]
    rows: list[tuple[str, ...]] = [
        (
            tenant.of,
            tenant.bound if tenant.sure == "clear" else f"{tenant.bound} ({tenant.sure})",
            NOTHING if tenant.service_ms.est is None else figure(tenant.service_ms.est),
            NOTHING if tenant.compute_share is None else percent(tenant.compute_share),
            NOTHING if tenant.bandwidth_share is None else percent(tenant.bandwidth_share),
            NOTHING if tenant.cores is None else f"{tenant.cores:.2f}",
        )
        for tenant in explanation.tenants
    ]
    if not loads and not settings:
        return rows
    # Under most loads a tenant alone is the same: those share a line.
    alike: dict[tuple[str, ...], list[str]] = {}
    for row, tenant in zip(rows, explanation.tenants, strict=True):
        varying = [tenant.load] if loads else []
        if settings:
            varying.append(settings_said(tenant.settings))
        alike.setdefault(row, []).append(", ".join(varying))
    return [
        (f"{row[0]} at {where[0] if len(where) == 1 else f'{len(where)} conditions'}", *row[1:])
        for row, where in alike.items()
    ]


def _splits(explanation: Explanation) -> DataTable:
    """Every slowdown in its factors; only the total has its interval, and only where there is room."""
    names = tuple(dict.fromkeys(name for split in explanation.splits for name in split.parts))
    stories = {story.cell: mix_name(story) for story in explanation.mixes}
    columns = ("slowdown = product of", "slowdown", *names)
    rows = []
    for split in explanation.splits:
        factors = [split.parts.get(name) for name in names]
        known = [NOTHING if part is None or part.est is None else ratio(part.est) for part in factors]
        total = split.total
        whole = NOTHING if total.est is None else ratio(total.est)
        wide = whole if total.lo is None or total.hi is None else with_interval(total, ratio)
        rows.append((stories[split.cell], split.tenant, whole, wide, known))
    narrow = grouped(columns, [(mix, (tenant, whole, *known)) for mix, tenant, whole, _, known in rows])
    return grouped(columns, [(mix, (tenant, wide, *known)) for mix, tenant, _, wide, known in rows], narrow=narrow)
