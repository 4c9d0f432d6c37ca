"""The result of a search as one HTML file without network access."""

from typing import Any

from cotenant import __version__
from cotenant.ranking.outcome import SearchOutcome
from cotenant.reporting.figures.figure import Figure, Understanding
from cotenant.reporting.figures.style import interval_layers, interval_rows_height, tips, whole
from cotenant.reporting.html.assets import columnar, embedded_json, environment, markup, policy, resource, scripts
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.search import answer, headline, rank_text, score_text, seen_text, sentences, span
from cotenant.text import duration, figure, percent, size

RANKING = Understanding(
    shows="The score of each model with a 95 % interval; baselines below. Scorers that test items hold each item back "
    "once; for the others the interval comes from random halves of the items.",
    look="Whether the best is clearly above the raw input and random weights: if not, no model has learned anything "
    "relevant to these items. Models of the same rank are indistinguishable; take the fastest of them.",
    misleads="Models dropped early were judged on fewer items, so their intervals are wider and their "
    "scores, learnt from less, are often lower than they would be on all items.",
)
STAGES = Understanding(
    shows="Seconds in each stage over the entire search.",
    look="The longest bar: load_data means that reading and decoding is the bottleneck, load_model that weights are "
    "reread for lack of memory, score that another scorer would be faster.",
    misleads="Shared stages are counted once, so they say little about the cost of a single model.",
)


def page(outcome: SearchOutcome) -> str:
    """The complete page."""
    texts = scripts()
    figures = [_scores(outcome), _time(outcome)]
    data = {
        "figures": {
            figure.name: {"spec": figure.spec, "margin": figure.margin} | columnar(figure.rows) for figure in figures
        },
        "mixes": {},
        "mix_specs": {},
    }
    template = environment().get_template("search.html.j2")
    return template.render(
        title=f"Models for {outcome.data}",
        version=__version__,
        policy=policy(texts),
        style=markup(resource("templates", "report.css")),
        scripts=[markup(text) for text in texts],
        data=markup(embedded_json(data)),
        outcome=outcome,
        headline=headline(outcome),
        answer=answer(outcome),
        sentences=sentences(outcome),
        ranking=[
            (rank_text(line), line.name, score_text(line.estimate), seen_text(line), figure(line.ms_per_item))
            for line in outcome.ranking
        ],
        baselines=[
            (baseline.name, score_text(baseline.estimate), f"{baseline.estimate.n:,}") for baseline in outcome.baselines
        ],
        timed=[(model.name, figure(model.ms_per_item)) for model in outcome.timed],
        shared=[(len(part.candidates), span(part.pieces), ", ".join(part.candidates)) for part in outcome.shared],
        rounds=[
            (number, f"{played['items']:,}", len(played["scores"]), len(played["kept"]), played["kept"][0])
            for number, played in enumerate(outcome.rounds, 1)
        ],
        facts={
            "folder": str(outcome.folder),
            "scorer": f"{outcome.scorer}: {outcome.about_scorer}" if outcome.about_scorer else outcome.scorer,
            "items": f"{outcome.items:,} of {outcome.items_there:,}",
            "rejected": f"{outcome.skipped:,}",
            "time": f"{duration(outcome.actual_s)}, {duration(outcome.predicted_s)} predicted, after "
            f"{duration(outcome.prepared_s)} of preparation",
            "memory": f"peak growth {size(outcome.peak_bytes)}, limit {size(outcome.memory_bytes)}",
            "parts": f"{outcome.parts:,} passes over parts of the data",
            "steps per item": f"{outcome.steps_shared:,} instead of {outcome.steps_alone:,}",
        },
        figures={figure.name: figure for figure in figures},
        stages=[(stage, figure(seconds), percent(seconds / _sum(outcome))) for stage, seconds in _stages(outcome)],
    )


def _scores(outcome: SearchOutcome) -> Figure:
    lines = [(line.name, line.estimate, "model") for line in outcome.ranking[: outcome.top]]
    lines += [(line.name, line.estimate, "baseline") for line in outcome.baselines]
    rows: list[dict[str, Any]] = [
        {
            "model": literal(name),
            "what": what,
            "est": estimate.est,
            "lo": estimate.lo,
            "hi": estimate.hi,
            "items": estimate.n,
        }
        for name, estimate, what in lines
    ]
    layers = interval_layers(
        {"field": "model", "type": "nominal", "title": None, "sort": None},
        f"score ({outcome.scorer})",
        {"field": "what", "type": "nominal", "title": None, "sort": None},
        tips(("model", "model"), ("est", "#score"), ("lo", "#from"), ("hi", "#to"), ("items", "#items")),
        zero=False,
    )
    return Figure(
        name="scores",
        title="Scores",
        condition="",
        spec=whole({"layer": layers}, interval_rows_height(len(rows))),
        rows=tuple(rows),
        understanding=RANKING,
        margin=200,
    )


def _time(outcome: SearchOutcome) -> Figure:
    rows = tuple({"stage": stage, "seconds": seconds} for stage, seconds in _stages(outcome))
    spec = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": {"field": "stage", "type": "nominal", "title": None, "sort": None},
            "x": {"field": "seconds", "type": "quantitative", "title": "seconds"},
            "tooltip": tips(("stage", "stage"), ("seconds", "#seconds")),
        },
    }
    return Figure("time", "Where the time went", "", whole(spec, {"step": 26}), rows, STAGES, margin=140)


def _stages(outcome: SearchOutcome) -> list[tuple[str, float]]:
    return sorted(outcome.stages_s.items(), key=lambda item: -item[1])


def _sum(outcome: SearchOutcome) -> float:
    return sum(outcome.stages_s.values()) or 1.0
