"""What was watched as one HTML file without network access, and as Markdown."""

import math
from datetime import UTC, datetime
from typing import Any

from cotenant import __version__
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.neighbours.watching import Watched, answer_sentences, grant_sentence, note_sentences, sentence
from cotenant.reporting.figures.figure import MOST_POINTS, Figure, Understanding
from cotenant.reporting.figures.style import colour, interval_layers, interval_rows_height, tips, whole
from cotenant.reporting.html.assets import columnar, embedded_json, environment, markup, policy, resource, scripts
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.markdown import bullets, escaped, table
from cotenant.reporting.terminal.watch import columns_of, tenant_rows
from cotenant.text import NOTHING, duration, figure, times

WORDS = ("tenant", "software", "neighbour", "verdict", "busy means", "time beside it", "why")
PAIR_COLUMNS = ("neighbour", "tenant", "verdict", "time beside it", "busy means", "why")

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


def watched_page(watched: Watched, *, links: str = "") -> str:
    """The complete page."""
    texts = scripts()
    figures = watched_figures(watched)
    data = {
        "figures": {
            figure.name: {"spec": figure.spec, "margin": figure.margin} | columnar(figure.rows) for figure in figures
        },
        "mixes": {},
        "mix_specs": {},
    }
    columns = columns_of(watched)
    slowed = any(influence.verdict == "slows" for influence in watched.influences)
    return (
        environment()
        .get_template("watch.html.j2")
        .render(
            title=f"Watched on {watched.device}",
            version=__version__,
            policy=policy(texts),
            style=markup(resource("templates", "report.css")),
            scripts=[markup(text) for text in texts],
            data=markup(embedded_json(data)),
            links=markup(links),
            when=f"{_utc(watched.since_s)}, for {duration(60 * watched.minutes)}; basis: watched",
            answer=answer_sentences(watched),
            mood="bad" if slowed else "good" if watched.decided and watched.influences else "open",
            pairs=_pairs(watched),
            pair_columns=PAIR_COLUMNS,
            tenants=[[row[name] for name in columns] for row in tenant_rows(watched)],
            columns=columns,
            words=WORDS,
            grants=[grant_sentence(tenant, grant) for tenant in watched.tenants for grant in tenant.grants],
            notes=note_sentences(watched),
            unseen=watched.unseen,
            figures={figure.name: figure for figure in figures},
            facts={
                tenant.tenant: ", ".join(f"{key} {value}" for key, value in tenant.facts.items())
                for tenant in watched.tenants
            },
        )
    )


def watched_markdown(watched: Watched) -> str:
    """The answer and the tables, short enough for a pull request."""
    columns = columns_of(watched)
    parts = [
        "# cotenant watch",
        escaped(f"{watched.device}, {_utc(watched.since_s)}, for {duration(60 * watched.minutes)}"),
        "\n\n".join(f"**{escaped(sentence)}**" for sentence in answer_sentences(watched)),
        table(columns, [[row[name] for name in columns] for row in tenant_rows(watched)]),
        bullets([*note_sentences(watched), *watched.unseen]),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def watched_figures(watched: Watched) -> list[Figure]:
    """Slowdowns, times and traffic, as far as there are any."""
    figures = [_slowdowns(watched), _curves(watched, "times"), _curves(watched, "traffic")]
    return [figure for figure in figures if figure.rows]


def _pairs(watched: Watched) -> list[list[str]]:
    return [
        [
            influence.neighbour,
            influence.tenant,
            influence.verdict,
            times(influence.busy),
            f"more than {figure(influence.busy_from, 2)}{influence.unit}" if influence.busy_from else NOTHING,
            sentence(influence) if influence.verdict == "can't tell" else "",
        ]
        for influence in watched.influences
    ]


def _slowdowns(watched: Watched) -> Figure:
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
    )  # fmt: skip
    layers = interval_layers(
        {"field": "pair", "type": "nominal", "title": None, "sort": None}, "time beside a busy neighbour, over idle",
        None, tips(("pair", "pair"), ("est", "#slowdown"), ("lo", "#from"), ("hi", "#to"), ("blocks", "#blocks")),
        zero=False,
    )  # fmt: skip
    return Figure(
        "slowdowns", "Slowdowns", "", whole({"layer": layers}, interval_rows_height(len(rows))), rows, SLOWDOWN, 200
    )


def _curves(watched: Watched, what: str) -> Figure:
    rows: list[dict[str, Any]] = []
    names = []
    for series in watched.series:
        values = 1e3 * series.mean_s if what == "times" else series.activity
        known = values[~_unknown(values)]
        if not known.size:
            continue
        name = literal(f"{series.tenant} ({series.measure})") if what == "times" else literal(series.tenant)
        names.append(name)
        scale = 1.0 if what == "times" else 100 / (float(known.max()) or 1.0)
        every = max(1, math.ceil(values.size * max(len(watched.series), 1) / MOST_POINTS))
        rows += [
            {"minute": at * series.step_s / 60, "tenant": name, "value": scale * float(values[at])}
            for at in range(0, values.size, every)
            if math.isfinite(values[at])
        ]
    title = "mean time, ms" if what == "times" else "share of its own top, %"
    spec = {
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "minute", "type": "quantitative", "title": "minutes watched"},
            "y": {"field": "value", "type": "quantitative", "title": title, "scale": {"zero": True}},
            "color": colour("tenant", names, ""),
            "tooltip": tips(("tenant", "tenant"), ("minute", "#minute"), ("value", f"#{title}")),
        },
    }
    words = TIMES if what == "times" else TRAFFIC
    return Figure(what, "Times" if what == "times" else "Traffic", "", whole(spec, 220), tuple(rows), words)


def _unknown(values: Any) -> Any:
    return ~(abs(values) < math.inf)


def _utc(since_s: float) -> str:
    return f"{datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M} UTC"
