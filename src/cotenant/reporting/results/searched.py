"""The result of a search: the ranking with intervals, the baselines, the time spent, and what was shared."""

from collections.abc import Sequence
from typing import Any

from cotenant.ranking.outcome import Ranked, SearchOutcome
from cotenant.reporting.elements import (
    DataTable,
    Drawing,
    Element,
    Facts,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Value,
)
from cotenant.reporting.elements.html import page
from cotenant.reporting.figures.figure import Figure, Understanding
from cotenant.reporting.figures.style import interval_layers, interval_rows_height, label, marks, quantity, tips, whole
from cotenant.store.imports import ModelTimes, SearchJson, sentence
from cotenant.tenancy.interval import Estimate
from cotenant.text import NOTHING, amount, duration, figure, literal, percent, size

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


def search_elements(outcome: SearchOutcome, *, everything: bool = False) -> list[Element]:
    """The answer, the ranking, the time, and sentences; with everything, every model and what was shared."""
    headline = f"{headline_of(outcome)}."
    time = _time(outcome)
    elements: list[Element] = [
        Sentence(answer(outcome), "bad" if _not_beaten(outcome) else "answer"),
        Remark(headline),
        _ranking(outcome, most=len(outcome.ranking) if everything else outcome.top),
    ]
    if outcome.timed:
        rows = tuple((line.name, "random", figure(line.ms_per_item)) for line in outcome.timed)
        elements.append(DataTable(("timed only", "weights", "ms/item"), rows, numbers=frozenset({"ms/item"})))
    if not everything:
        return [*elements, time.instead, Sentences(tuple(sentences(outcome)))]
    legend = "A rank with = is shared: its models are indistinguishable on these items. Brackets are 95 % intervals."
    ranking = [*elements, Remark(legend), Sentences(tuple(sentences(outcome))), _scores(outcome)]
    return [
        Section("Ranking", "ranking", tuple(ranking)),
        Section("Where the time went", "time", (time,)),
        Section("Shared work", "shared", tuple(_shared(outcome))),
        Section("About this search", "about", (_facts(outcome),)),
    ]


def search_page(outcome: SearchOutcome) -> str:
    """Everything as one HTML file without network access."""
    elements = search_elements(outcome, everything=True)
    return page(elements, title=f"Models for {outcome.data}", brand="cotenant search", when=headline_of(outcome))


def answer(outcome: SearchOutcome) -> str:
    """The recommended model, and whether it beats the baselines."""
    if not outcome.ranking:
        return "Nothing was ranked: no candidate has weights. Give directories with weights, or add --fetch."
    first = [line for line in outcome.ranking if line.rank == 1]
    best = outcome.ranking[0].name
    leading = f"{best} is best."
    if len(first) > 1:
        quickest = min(first, key=lambda line: line.ms_per_item)
        names = ", ".join(line.name for line in first)
        leading = f"{names} are indistinguishable on these items; {quickest.name} is the fastest of them."
    if unbeaten := _not_beaten(outcome):
        return f"{leading} Caution: {best} is not clearly above {' and '.join(unbeaten)}."
    return f"{leading} {best} is above every baseline."


def _not_beaten(outcome: SearchOutcome) -> list[str]:
    return [baseline.name for baseline in outcome.baselines if not baseline.beaten] if outcome.ranking else []


def headline_of(outcome: SearchOutcome) -> str:
    """What was ranked, and how."""
    way = "every model saw every item" if outcome.exact else "successive halving"
    return (
        f"{amount(len(outcome.ranking), 'model')} ranked on {outcome.data}: {outcome.items:,} items, "
        f"{outcome.classes} classes, scorer {outcome.scorer}, {way}"
    )


def sentences(outcome: SearchOutcome) -> list[str]:
    """Conclusions to act on."""
    lines = []
    if any(line.left_in_round is not None for line in outcome.ranking):
        lines.append("A round beside the items: the model was dropped in it, judged on the items seen until then.")
    if outcome.steps_alone:
        saved = 1 - outcome.steps_shared / outcome.steps_alone
        lines.append(
            f"Of {outcome.steps_alone:,} steps per item {percent(saved)} were shared"
            + (f": {_most_shared(outcome)}." if outcome.shared else "; no two models have blocks in common.")
        )
    lines.append(
        f"It took {duration(outcome.actual_s)} ({duration(outcome.predicted_s)} predicted) after "
        f"{duration(outcome.prepared_s)} of preparation, and {size(outcome.peak_bytes)} of the "
        f"{size(outcome.memory_bytes)} allowed."
    )
    if outcome.skipped:
        lines.append(f"Rejected: {amount(outcome.skipped, 'item')} or empty classes.")
    if outcome.timed:
        lines.append("Models with random weights were timed but not ranked: their scores would be meaningless.")
    return [*lines, *outcome.notes]


def _most_shared(outcome: SearchOutcome) -> str:
    most = max(outcome.shared, key=lambda part: len(part.pieces) * (len(part.candidates) - 1))
    return f"{len(most.candidates)} models have {_span(most.pieces)} in common"


def _span(pieces: Sequence[str]) -> str:
    """`data to block 6`, or a single piece."""
    return pieces[0] if len(pieces) == 1 else f"{pieces[0]} to {pieces[-1]}"


def _ranking(outcome: SearchOutcome, *, most: int) -> DataTable:
    rows: list[tuple[Value, ...]] = [
        (
            f"{line.rank}{'=' * line.tied}",
            TableCell(line.name, tone="answer" if line.rank == 1 else "plain"),
            _score(line.estimate),
            _seen(line),
            figure(line.ms_per_item),
        )
        for line in outcome.ranking[:most]
    ]
    if len(outcome.ranking) > most:
        more = f"and {len(outcome.ranking) - most} more (--json lists all)"
        rows.append(("", TableCell(more, tone="quiet"), "", "", ""))
    rows += [
        (NOTHING, TableCell(baseline.name, tone="quiet"), _score(baseline.estimate), f"{baseline.estimate.n:,}", "")
        for baseline in outcome.baselines
    ]
    columns = ("rank", "model", "score", "items", "ms/item")
    return DataTable(columns, tuple(rows), numbers=frozenset(columns) - {"model"}, ruled=False)


def _score(estimate: Estimate) -> str:
    """`0.836 [0.811, 0.861]`."""
    if estimate.lo is None or estimate.hi is None:
        return f"{estimate.est:.3f}"
    return f"{estimate.est:.3f} [{estimate.lo:.3f}, {estimate.hi:.3f}]"


def _seen(line: Ranked) -> str:
    """The items it was judged on, and the round in which it was dropped."""
    return f"{line.estimate.n:,}" + ("" if line.left_in_round is None else f" (round {line.left_in_round})")


def _scores(outcome: SearchOutcome) -> Drawing:
    lines = [(line.name, line.estimate, "model") for line in outcome.ranking[: outcome.top]]
    lines += [(line.name, line.estimate, "baseline") for line in outcome.baselines]
    rows: list[dict[str, Any]] = [
        {"model": literal(name), "what": what, "est": estimate.est, "lo": estimate.lo, "hi": estimate.hi}
        | {"items": estimate.n}
        for name, estimate, what in lines
    ]
    layers = interval_layers(
        label("model", sort=None), f"score ({outcome.scorer})", label("what", sort=None),
        tips(("model", "model"), ("est", "#score"), ("lo", "#from"), ("hi", "#to"), ("items", "#items")), zero=False,
    )  # fmt: skip
    spec = whole({"layer": layers}, interval_rows_height(len(rows)))
    drawn = Figure("scores", "Scores", "", spec, tuple(rows), RANKING, margin=200)
    return Drawing(drawn, DataTable(("model", "score"), tuple((name, _score(estimate)) for name, estimate, _ in lines)))


def _time(outcome: SearchOutcome) -> Drawing:
    stages = sorted(outcome.stages_s.items(), key=lambda stage_and_seconds: -stage_and_seconds[1])
    encoding = {
        "y": label("stage", sort=None),
        "x": quantity("seconds", "seconds"),
        "tooltip": tips(("stage", "stage"), ("seconds", "#seconds")),
    }
    spec = marks("bar", encoding, cornerRadiusEnd=2)
    rows = tuple({"stage": stage, "seconds": seconds} for stage, seconds in stages)
    drawn = Figure("time", "Seconds by stage", "", whole(spec, {"step": 26}), rows, STAGES, margin=140)
    total = sum(outcome.stages_s.values()) or 1.0
    lines = tuple((stage, figure(seconds), percent(seconds / total)) for stage, seconds in stages)
    return Drawing(drawn, DataTable(("stage", "seconds", "share"), lines, numbers=frozenset({"seconds", "share"})))


def _shared(outcome: SearchOutcome) -> list[Element]:
    elements: list[Element] = [Sentence("No two models have blocks or data in common.", "quiet")]
    if outcome.shared:
        rows = tuple((len(part.candidates), _span(part.pieces), ", ".join(part.candidates)) for part in outcome.shared)
        elements = [
            Sentence(
                "Blocks with the same architecture and the same weights, given the same input, were computed once: "
                f"{outcome.steps_shared:,} instead of {outcome.steps_alone:,} steps per item."
            ),
            DataTable(("models", "pieces", "which"), rows),
        ]
    if outcome.rounds:
        columns = ("round", "items", "models", "kept", "leader")
        played = tuple(
            (number, f"{round_['items']:,}", len(round_["scores"]), len(round_["kept"]), round_["kept"][0])
            for number, round_ in enumerate(outcome.rounds, 1)
        )
        elements.append(DataTable(columns, played, title="Rounds", numbers=frozenset(columns[:-1])))
    return elements


def _facts(outcome: SearchOutcome) -> Facts:
    scorer = f"{outcome.scorer}: {outcome.about_scorer}" if outcome.about_scorer else outcome.scorer
    return Facts(
        (
            ("folder", str(outcome.folder)),
            ("scorer", scorer),
            ("items", f"{outcome.items:,} of {outcome.items_there:,}"),
            ("rejected", f"{outcome.skipped:,}"),
            ("memory", f"peak growth {size(outcome.peak_bytes)}, limit {size(outcome.memory_bytes)}"),
            ("parts", f"{outcome.parts:,} passes over parts of the data"),
        )
    )


# --- A result file of the original model-search study: time by stage and model


def search_file_elements(results: SearchJson) -> list[Element]:
    """One line per stage, model and batch size, longest first."""
    rows = tuple(
        (*_whose(cell, first=number == 0), stage, figure(seconds), percent(seconds / (sum(cell.stage_s.values()) or 1)))
        for cell in results.cells
        for number, (stage, seconds) in enumerate(sorted(cell.stage_s.items(), key=lambda timed: -timed[1]))
    )
    notes = ["Times are seconds over all batches, as in the file, which has no trials, intervals or verdicts."]
    notes += [f"left out: {sentence(skipped)}" for skipped in results.skipped]
    return [
        Sentence(f"{results.path}: result of the original model-search study", "answer"),
        DataTable(("model", "batch", "batches", "whole s", "stage", "s", "of the stages"), rows),
        Sentences(tuple(notes)),
    ]


def _whose(cell: ModelTimes, *, first: bool) -> tuple[str, str, str, str]:
    if not first:
        return "", "", "", ""
    whole_s = NOTHING if cell.end_to_end_s is None else figure(cell.end_to_end_s)
    return cell.model, str(cell.batch), str(cell.batches), whole_s
