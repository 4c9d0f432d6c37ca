"""What was watched: the answer, who slows whom, each tenant's figures and curves, and what can't be seen."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.neighbours import (
    CPU_S,
    GPU_S,
    Watched,
    WatchedExplanation,
    WatchedTenant,
    answer_sentences,
    grant_sentence,
    note_sentences,
    sentence,
)
from cotenant.reporting.elements import (
    DataTable,
    Drawing,
    Element,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Tone,
)
from cotenant.reporting.elements import html as page
from cotenant.reporting.elements.markdown import to_markdown
from cotenant.reporting.figures.figure import MOST_POINTS, Figure, Understanding
from cotenant.reporting.figures.style import (
    colour,
    interval_layers,
    interval_rows_height,
    label,
    marks,
    quantity,
    tips,
    whole,
)
from cotenant.tenancy.interval import Estimate
from cotenant.text import NOTHING, amount, duration, figure, literal, percent, times

if TYPE_CHECKING:
    from cotenant.measure.watch import WatchSession

LATELY_S = 10.0
_WORDS = ("tenant", "software")
_ROLES = ("requests", "latency_s", "latency_count", "token_s", "token_count", "tokens_out", CPU_S, GPU_S)
_VERDICTS: dict[str, Tone] = {"slows": "bad", "can't tell": "open"}
PAIRS = ("neighbour", "tenant", "verdict", "time beside it", "busy means", "why")
INTERVALS = "Brackets are 95 % intervals, from leaving out one block of time after the other."
BUCKETS = (
    "Quantiles are interpolated within the buckets that the servers publish; in the first, only its bound is known."
)

TIMES = Understanding(
    shows="Each tenant's mean time over time: of a token for tenants that generate, of a request for others.",
    look="Steps that coincide with a neighbour's traffic in the figure below.",
    misleads="A tenant is also slower while it has more to do itself; the slowdowns above are at equal own load.",
)
TRAFFIC = Understanding(
    shows="What each tenant served over time, as a share of its own top: requests, tokens or use of the device.",
    look="Whether tenants are sometimes idle: without such times nothing tells who slows whom.",
    misleads="Shares are of each tenant's own top, so equal heights are not equal work.",
)
SLOWDOWN = Understanding(
    shows="The time of a unit of work while the neighbour is busy, over the time while it is idle, with a 95 % "
    "interval, at equal own load and free of drift.",
    look="Intervals that lie above 1 entirely: these neighbours slow.",
    misleads="A third party that works whenever the neighbour does, and isn't watched, would look like the neighbour.",
)


def watched_elements(watched: Watched, *, everything: bool = True) -> list[Element]:
    """The whole result; a screen of it has neither the pairs nor the curves."""
    answer: list[Element] = [
        Sentence(text, "plain" if number and everything else _mood(watched) if everything else "answer")
        for number, text in enumerate(answer_sentences(watched))
    ]
    if everything and watched.influences:
        answer += [pairs_table(watched), Remark(INTERVALS), *_slowdowns(watched)]
    grants = tuple(grant_sentence(tenant, grant) for tenant in watched.tenants for grant in tenant.grants)
    tenants: list[Element] = [tenants_table(watched)]
    tenants += [Remark(BUCKETS)] if everything and any(tenant.quantiles_ms for tenant in watched.tenants) else []
    tenants += [Sentences(grants, "Is the share honoured?" if everything else "", plain=not everything)] * bool(grants)
    unseen = (*note_sentences(watched), *watched.unseen)
    missing: Element = Sentences(unseen, plain=not everything) if unseen else Sentence(
        "Nothing is missing from the readings."
    )  # fmt: skip
    curves = [drawing for what in ("times", "traffic") for drawing in _curves(watched, what)] if everything else []
    ending = Remark(
        f"Watched for {duration(60 * watched.minutes)} on {watched.device}; nothing was sent but reads of /metrics."
    )
    sections = [Section("Who slows whom", "answer", tuple(answer)), Section("Tenants", "tenants", tuple(tenants))]
    if curves:
        sections.append(Section("Over time", "curves", tuple(curves)))
    if everything or unseen:
        sections.append(Section("What can't be seen", "unseen", (missing, *_facts(watched, everything))))
    return [*sections, ending]


def watched_page(watched: Watched, *, links: str = "") -> str:
    """The complete page."""
    when = f"{_utc(watched.since_s)}, for {duration(60 * watched.minutes)}; basis: watched"
    title = f"Watched on {watched.device}"
    return page.page(watched_elements(watched), title=title, brand="cotenant watch", when=when, links=links)


def watched_markdown(watched: Watched) -> str:
    """The same, short enough for a pull request."""
    when = f"{watched.device}, {_utc(watched.since_s)}, for {duration(60 * watched.minutes)}"
    return (
        to_markdown([Section("cotenant watch", "watch", (Sentence(when), *watched_elements(watched)))], level=1) + "\n"
    )


def _mood(watched: Watched) -> Tone:
    if any(influence.verdict == "slows" for influence in watched.influences):
        return "bad"
    return "good" if watched.decided and watched.influences else "open"


def pairs_table(watched: Watched) -> DataTable:
    """Each neighbour of each tenant, and whether it slows it."""
    rows = tuple(
        (
            influence.neighbour,
            influence.tenant,
            TableCell(influence.verdict, tone=_VERDICTS.get(influence.verdict, "plain")),
            times(influence.busy),
            f"more than {figure(influence.busy_from, 2)}{influence.unit}" if influence.busy_from else NOTHING,
            sentence(influence) if influence.verdict == "can't tell" else "",
        )
        for influence in watched.influences
    )
    if not any(row[-1] for row in rows):
        return DataTable(PAIRS[:-1], tuple(row[:-1] for row in rows), "Pairs")
    return DataTable(PAIRS, rows, "Pairs")


def tenants_table(watched: Watched) -> DataTable:
    """Figures of each tenant over the watched time; columns with at least one figure."""
    rows = [_row(tenant) for tenant in watched.tenants]
    columns = tuple(
        name for name in (rows[0] if rows else {}) if name in _WORDS or any(row[name] != NOTHING for row in rows)
    )
    numbers = frozenset(columns) - {*_WORDS}
    return DataTable(columns, tuple(tuple(row[name] for name in columns) for row in rows), numbers=numbers, ruled=False)


def _row(tenant: WatchedTenant) -> dict[str, str]:
    return {
        "tenant": tenant.tenant,
        "software": tenant.software,
        "requests": NOTHING if tenant.requests is None else f"{tenant.requests:,}",
        "req/s": _figure(tenant.rate_rps),
        "mean ms": _figure(tenant.mean_ms),
        **{f"{name} ms": _quantile(tenant, name) for name in ("p50", "p95", "p99")},
        "first token ms": _figure(tenant.first_ms),
        "ms/token": _figure(tenant.token_ms),
        "tokens in": _figure(tenant.tokens_in),
        "tokens out": _figure(tenant.tokens_out),
        "cores": _figure(tenant.cores),
        "GPU time": NOTHING if tenant.gpu_share is None else percent(tenant.gpu_share),
    }


def _quantile(tenant: WatchedTenant, name: str) -> str:
    value = tenant.quantiles_ms.get(name)
    return f"{'≤ ' if value is not None and value == tenant.first_bound_ms else ''}{_figure(value)}"


def _facts(watched: Watched, everything: bool) -> list[Element]:
    """What the servers say of themselves."""
    rows = tuple(
        (tenant.tenant, ", ".join(f"{key} {value}" for key, value in tenant.facts.items()))
        for tenant in watched.tenants
        if tenant.facts
    )
    return [DataTable(("tenant", "what its server says of itself"), rows)] if rows and everything else []


def _slowdowns(watched: Watched) -> list[Drawing]:
    rows = tuple(
        {
            "pair": literal(f"{influence.neighbour} on {influence.tenant}"),
            "est": influence.busy.est,
            "lo": influence.busy.lo,
            "hi": influence.busy.hi,
            "blocks": influence.busy.n,
        }
        for influence in watched.influences
        if isinstance(influence.busy, Estimate)
    )
    if not rows:
        return []
    layers = interval_layers(
        label("pair", sort=None), "time beside a busy neighbour, over idle",
        None, tips(("pair", "pair"), ("est", "#slowdown"), ("lo", "#from"), ("hi", "#to"), ("blocks", "#blocks")),
        zero=False,
    )  # fmt: skip
    spec = whole({"layer": layers}, interval_rows_height(len(rows)))
    instead = DataTable(
        ("neighbour on tenant", "slowdown", "blocks"),
        tuple(
            (f"{influence.neighbour} on {influence.tenant}", times(influence.busy), influence.busy.n)
            for influence in watched.influences
            if isinstance(influence.busy, Estimate)
        ),
        numbers=frozenset({"slowdown", "blocks"}),
    )
    return [Drawing(Figure("slowdowns", "Slowdowns", "", spec, rows, SLOWDOWN, 200), instead)]


def _curves(watched: Watched, what: str) -> list[Drawing]:
    rows: list[dict[str, Any]] = []
    ranges: list[tuple[str, ...]] = []
    for series in watched.series:
        values = 1e3 * series.mean_s if what == "times" else series.activity
        known = values[abs(values) < math.inf]
        if not known.size:
            continue
        name = literal(f"{series.tenant} ({series.measure})") if what == "times" else literal(series.tenant)
        scale = 1.0 if what == "times" else 100 / (float(known.max()) or 1.0)
        ranges.append((name, *(figure(scale * float(value)) for value in (known.min(), known.mean(), known.max()))))
        every = max(1, math.ceil(values.size * max(len(watched.series), 1) / MOST_POINTS))
        rows += [
            {"minute": at * series.step_s / 60, "tenant": name, "value": scale * float(values[at])}
            for at in range(0, values.size, every)
            if math.isfinite(values[at])
        ]
    if not rows:
        return []
    unit = "mean time, ms" if what == "times" else "share of its own top, %"
    encoding = {
        "x": quantity("minute", "minutes watched"),
        "y": quantity("value", unit, scale={"zero": True}),
        "color": colour("tenant", [name for name, *_ in ranges], ""),
        "tooltip": tips(("tenant", "tenant"), ("minute", "#minute"), ("value", f"#{unit}")),
    }
    spec = marks("line", encoding, interpolate="step-after", strokeWidth=1.5)
    title, words = ("Times", TIMES) if what == "times" else ("Traffic", TRAFFIC)
    columns = (unit, "least", "mean", "most")
    instead = DataTable(columns, tuple(ranges), numbers=frozenset(columns[1:]))
    return [Drawing(Figure(what, title, "", whole(spec, 220), tuple(rows), words), instead)]


def explained_elements(explanation: WatchedExplanation) -> list[Element]:
    """Why watched servers were as slow as they were: tenant by tenant."""
    return [
        *(
            Section(causes.tenant, causes.tenant, (Sentences(causes.sentences, plain=True),))
            for causes in explanation.tenants
        ),
        Remark(f"Watched on {explanation.device}: it rests on what the traffic happened to show. {INTERVALS}"),
    ]


def _utc(since_s: float) -> str:
    return f"{datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M} UTC"


def live_parts(session: "WatchSession", watched: Watched | None, since_s: float) -> tuple[RenderableType, ...]:
    """On a terminal while it is watched: the last seconds, and the answer so far."""
    table = Table(box=None, pad_edge=False, title=f"last {LATELY_S:.0f} s", title_justify="left")
    for name in ("tenant", "req/s", "mean ms", "ms/token", "tokens/s", "cores", "GPU time"):
        table.add_column(name, justify="left" if name in _WORDS else "right")
    for track in session.targets.tracks:
        rates = {role: track.rate(role, LATELY_S) for role in _ROLES}
        gpu = rates[GPU_S]
        table.add_row(
            literal(track.tenant), _figure(rates["requests"]), _mean_ms(rates["latency_s"], rates["latency_count"]),
            _mean_ms(rates["token_s"], rates["token_count"]), _figure(rates["tokens_out"]), _figure(rates[CPU_S]),
            NOTHING if gpu is None else percent(gpu),
        )  # fmt: skip
    head = Text(f"{literal(session.device)}, {amount(len(session.targets.tracks), 'tenant')}, watched for "
                f"{duration(since_s)}; Ctrl-C ends it and shows the answer")  # fmt: skip
    return (head, table, *([_so_far(watched)] if watched is not None else ()))


def _so_far(watched: Watched) -> Text:
    sentences: Sequence[str] = [*answer_sentences(watched), *note_sentences(watched)]
    return Text("so far:\n" + "\n".join(map(literal, sentences)), "dim")


def _mean_ms(time_s: float | None, count: float | None) -> str:
    return NOTHING if time_s is None or not count else figure(1e3 * time_s / count)


def _figure(value: float | None) -> str:
    return NOTHING if value is None else figure(value)
