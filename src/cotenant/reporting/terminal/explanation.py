"""An explanation, and the definition of a metric, for a terminal and as Markdown."""

from collections.abc import Sequence
from io import StringIO
from textwrap import wrap

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.decision.wording import headline
from cotenant.analyse.estimates.quantiles import Number
from cotenant.analyse.explanation.explanation import Explanation
from cotenant.analyse.explanation.sentences import explanation_sentences, main_sentences, mix_name
from cotenant.analyse.sharing.metrics import Metric
from cotenant.reporting.elements import markdown
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import Fitting, Grouped, GroupedRows, listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, amount, figure, percent, ratio

MOST_LINES = 40
"""Maximum lines without --all."""
MOST_ALONE = 8
ALONE = ("tenant alone", "bound by", "ms", "compute", "bandwidth", "cores")


def explanation_screen(explanation: Explanation, width: int) -> tuple[RenderableType, ...]:
    """At most `MOST_LINES` lines, most important first: the answer, tenants alone, and causes.

    Args:
        explanation: The explanation.
        width: Width of the terminal, in characters.
    """
    answer = headline(explanation.answer)
    rows = _alone(explanation)
    shown = rows[:MOST_ALONE]
    more = len(rows) - len(shown)
    sentences = main_sentences(explanation)
    ending = (
        "Simulated: nothing was measured. " if explanation.simulated else ""
    ) + "Every slowdown and its parts: --all."
    # Blank lines between the parts and the last line take what is left of the screen.
    table = listing(ALONE, shown)
    height = len(Console(width=width, file=StringIO()).render_lines(table))
    room = MOST_LINES - 5 - _lines(answer, width) - height - 2 * bool(more) - _lines([ending], width)
    kept = _fitting(sentences, room, width)
    dropped = len(sentences) - len(kept)
    return (
        _said(answer),
        table,
        *([Text(f"and {amount(more, 'more tenant')}", "dim")] if more else ()),
        *([sentence_list(kept)] if kept else ()),
        Text(f"{amount(dropped, 'more sentence')} left out. {ending}" if dropped else ending, "dim"),
    )


def _said(sentences: Sequence[str]) -> Text:
    return Text("\n".join(map(literal, sentences)), "bold")


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


def explanation_parts(explanation: Explanation) -> tuple[RenderableType, ...]:
    """The answer, tenants alone, the parts of each slowdown, then sentences."""
    parts: list[RenderableType] = [
        _said(headline(explanation.answer)),
        listing(ALONE, _alone(explanation)),
    ]
    if explanation.splits:
        parts.append(_splits(explanation))
    return (*parts, sentence_list(explanation_sentences(explanation)))


def explanation_markdown(explanation: Explanation) -> str:
    """The same as Markdown."""
    names = _part_names(explanation)
    rows = [
        (mix, tenant, *cells)
        for mix, lines in _split_rows(explanation, intervals=True).items()
        for tenant, *cells in lines
    ]
    parts = ["### Tenants alone\n", markdown.table(ALONE, _alone(explanation))]
    if rows:
        parts += ["### Slowdowns and their parts\n", markdown.table(("mix", "tenant", "slowdown", *names), rows)]
    return "\n".join([*parts, "### Findings\n", markdown.bullets(explanation_sentences(explanation))])


def metric_parts(metric: Metric) -> tuple[RenderableType, ...]:
    """A definition list, then the caveats."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in metric_facts(metric).items():
        table.add_row(name, value)
    return Text(f"{metric.title} (`{metric.name}`)", "bold"), table, sentence_list(metric.caveats)


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
    several = len({(tenant.load, tenant.settings) for tenant in explanation.tenants}) > 1
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
    if not several:
        return rows
    # Under most loads a tenant alone is the same: those share a line.
    alike: dict[tuple[str, ...], list[str]] = {}
    for row, tenant in zip(rows, explanation.tenants, strict=True):
        alike.setdefault(row, []).append(tenant.load)
    return [
        (f"{row[0]} at {loads[0] if len(loads) == 1 else f'{len(loads)} loads'}", *row[1:])
        for row, loads in alike.items()
    ]


def _part_names(explanation: Explanation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for split in explanation.splits for name in split.parts))


def _split_rows(explanation: Explanation, *, intervals: bool) -> dict[str, list[tuple[str, ...]]]:
    names = _part_names(explanation)
    stories = {story.cell: mix_name(story) for story in explanation.mixes}
    rows: dict[str, list[tuple[str, ...]]] = {}
    for split in explanation.splits:
        cells = [split.total, *(split.parts.get(name) for name in names)]
        rows.setdefault(stories[split.cell], []).append(
            (split.tenant, *(_number(cell, intervals=intervals and not index) for index, cell in enumerate(cells)))
        )
    return rows


def _splits(explanation: Explanation) -> Fitting:
    columns = ("slowdown = product of", "slowdown", *_part_names(explanation))

    def table(*, intervals: bool) -> Grouped:
        return Grouped(
            columns,
            [
                GroupedRows(
                    Text(literal(mix), "cyan"), tuple(tuple(Text(literal(cell)) for cell in row) for row in rows)
                )
                for mix, rows in _split_rows(explanation, intervals=intervals).items()
            ],
        )

    return Fitting((table(intervals=True), table(intervals=False)))


def _number(number: Number | None, *, intervals: bool) -> str:
    if number is None or number.est is None:
        return NOTHING
    if not intervals or number.lo is None or number.hi is None:
        return ratio(number.est)
    return f"{ratio(number.est)} [{ratio(number.lo)}, {ratio(number.hi)}]"
