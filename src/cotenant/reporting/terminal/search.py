"""The result of a search, for a terminal: the ranking with intervals, the baselines, and the time spent."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.ranking.outcome import (
    Began,
    Event,
    Listener,
    PlannedSearch,
    Ranked,
    RoundEnded,
    SearchOutcome,
    WithoutWeights,
    Working,
)
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.store.imports.result import sentence
from cotenant.store.imports.search_json import ModelTimes, SearchJson
from cotenant.text import NOTHING, amount, duration, figure, listed, percent, size


def outcome_tables(outcome: SearchOutcome) -> tuple[RenderableType, ...]:
    """Everything, in reading order."""
    parts: list[RenderableType] = [
        Text(literal(answer(outcome)), "bold"),
        Text(literal(headline(outcome)), "dim"),
        _ranking(outcome),
    ]
    if outcome.timed:
        parts.append(_timed(outcome))
    parts += [_stages(outcome), sentence_list(sentences(outcome))]
    return tuple(parts)


def answer(outcome: SearchOutcome) -> str:
    """The recommended model, and whether it beats the baselines."""
    return " ".join([*_best(outcome), *_against_baselines(outcome)])


def headline(outcome: SearchOutcome) -> str:
    """What was ranked, and how."""
    way = "every model saw every item" if outcome.exact else "successive halving"
    ranked = len(outcome.ranking)
    return (
        f"{amount(ranked, 'model')} ranked on {outcome.data}: {outcome.items:,} items, "
        f"{outcome.classes} classes, scorer {outcome.scorer}, {way}"
    )


def score_text(estimate: Estimate) -> str:
    """`0.836 [0.811, 0.861]`."""
    if estimate.lo is None or estimate.hi is None:
        return f"{estimate.est:.3f}"
    return f"{estimate.est:.3f} [{estimate.lo:.3f}, {estimate.hi:.3f}]"


def rank_text(line: Ranked) -> str:
    """`1`, or `1=` where others share the rank."""
    return f"{line.rank}{'=' * line.tied}"


def seen_text(line: Ranked) -> str:
    """The items it was judged on, and the round in which it was dropped."""
    return f"{line.estimate.n:,}" + ("" if line.left_in_round is None else f" (round {line.left_in_round})")


def sentences(outcome: SearchOutcome) -> list[str]:
    """Conclusions to act on."""
    sentences = []
    if any(line.left_in_round is not None for line in outcome.ranking):
        sentences.append("A round beside the items: the model was dropped in it, judged on the items seen until then.")
    if outcome.steps_alone:
        saved = 1 - outcome.steps_shared / outcome.steps_alone
        sentences.append(
            f"Of {outcome.steps_alone:,} steps per item {percent(saved)} were shared"
            + (f": {_most_shared(outcome)}." if outcome.shared else "; no two models have blocks in common.")
        )
    sentences.append(
        f"It took {duration(outcome.actual_s)} ({duration(outcome.predicted_s)} predicted) after "
        f"{duration(outcome.prepared_s)} of preparation, and {size(outcome.peak_bytes)} of the "
        f"{size(outcome.memory_bytes)} allowed."
    )
    if outcome.skipped:
        sentences.append(f"Rejected: {amount(outcome.skipped, 'item')} or empty classes.")
    if outcome.timed:
        sentences.append("Models with random weights were timed but not ranked: their scores would be meaningless.")
    return [*sentences, *outcome.notes]


def _best(outcome: SearchOutcome) -> list[str]:
    if not outcome.ranking:
        return ["Nothing was ranked: no candidate has weights. Give directories with weights, or add --fetch."]
    first = [line for line in outcome.ranking if line.rank == 1]
    if len(first) == 1:
        return [f"{first[0].name} is best."]
    names = ", ".join(line.name for line in first)
    quickest = min(first, key=lambda line: line.ms_per_item)
    return [f"{names} are indistinguishable on these items; {quickest.name} is the fastest of them."]


def _against_baselines(outcome: SearchOutcome) -> list[str]:
    if not outcome.ranking:
        return []
    best = outcome.ranking[0]
    not_beaten = [baseline for baseline in outcome.baselines if not baseline.beaten]
    if not_beaten:
        names = " and ".join(baseline.name for baseline in not_beaten)
        return [f"Caution: {best.name} is not clearly above {names}."]
    return [f"{best.name} is above every baseline."]


def _most_shared(outcome: SearchOutcome) -> str:
    most = max(outcome.shared, key=lambda part: len(part.pieces) * (len(part.candidates) - 1))
    return f"{len(most.candidates)} models have {span(most.pieces)} in common"


def span(pieces: Sequence[str]) -> str:
    """`data to block 6`, or a single piece."""
    return pieces[0] if len(pieces) == 1 else f"{pieces[0]} to {pieces[-1]}"


def _ranking(outcome: SearchOutcome) -> Table:
    table = _table("rank", "model", "score", "items", "ms/item")
    for line in outcome.ranking[: outcome.top]:
        table.add_row(
            rank_text(line),
            Text(literal(line.name), "bold" if line.rank == 1 else ""),
            score_text(line.estimate),
            seen_text(line),
            figure(line.ms_per_item),
        )
    more = len(outcome.ranking) - outcome.top
    if more > 0:
        table.add_row("", Text(f"and {more} more (--json lists all)", "dim"), "", "", "")
    for baseline in outcome.baselines:
        table.add_row(
            NOTHING, Text(literal(baseline.name), "dim"), score_text(baseline.estimate), f"{baseline.estimate.n:,}", ""
        )
    return table


def _timed(outcome: SearchOutcome) -> Table:
    table = _table("timed only", "weights", "ms/item")
    for line in outcome.timed:
        table.add_row(Text(literal(line.name)), "random", figure(line.ms_per_item))
    return table


def _stages(outcome: SearchOutcome) -> Table:
    table = _table("stage", "seconds", "share")
    whole = sum(outcome.stages_s.values()) or 1.0
    for stage, seconds in sorted(outcome.stages_s.items(), key=lambda item: -item[1]):
        table.add_row(stage, figure(seconds), percent(seconds / whole))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    names = {"model", "timed only", "stage", "weights"}
    for column in columns:
        named = column in names
        table.add_column(column, justify="left" if named else "right", overflow="fold", no_wrap=not named)
    return table


# --- progress of a search on stderr: progress, the leader so far, the time left


@contextmanager
def watch(console: Console) -> Iterator[Listener]:
    """A listener that displays the search: live on a terminal, else one line per event."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda event: _say(console, event)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def listen(event: Event) -> None:
            if isinstance(event, Working):
                live.update(picture(event), refresh=True)
            else:
                _say(live.console, event)

        yield listen


def line(event: Event) -> str | None:
    """The event as a line, if worth one."""
    match event:
        case WithoutWeights():
            outcome = "will be timed, not ranked" if event.others else "nothing will be ranked, only timed"
            verb = "has" if len(event.models) == 1 else "have"
            return (
                f"{listed(event.models)} {verb} no weights here: {outcome}. "
                "Give directories with weights, or models that --fetch can download."
            )
        case Began():
            return f"{'resuming' if event.resumed else 'started'} in {event.folder}"
        case PlannedSearch(models=0):
            return f"{event.items:,} items, about {duration(event.predicted_s)}"
        case PlannedSearch():
            saved = percent(1 - event.steps_shared / event.steps_alone) if event.steps_alone else "nothing"
            rounds = "" if event.rounds == 1 else f" in {event.rounds} rounds"
            return (
                f"{amount(event.models, 'model')}, {event.items:,} items{rounds}: "
                f"about {duration(event.predicted_s)}; "
                f"{saved} of the steps are shared"
            )
        case RoundEnded():
            return (
                f"round {event.number} of {event.of}: {event.items:,} items, {event.models} models, {event.kept} kept; "
                f"{event.leader} leads with {event.score:.3f}"
            )
    return None


def picture(event: Working) -> Group:
    """The live display."""
    top = Table.grid(padding=(0, 1), expand=True)
    top.add_column(no_wrap=True)
    top.add_column(ratio=1)
    top.add_row(Text("search", "bold"), ProgressBar(total=1, completed=event.share, animation_time=0))
    left = "" if event.left_s is None else f", about {duration(event.left_s)} left"
    rows = [Text(f"  {literal(event.doing)}{left}", "cyan")]
    if event.leader is not None:
        rows.append(Text(f"  {literal(event.leader)} leads", "dim"))
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
    return Group(top, *rows)


def _say(console: Console, event: Event) -> None:
    text = line(event)
    if text is not None:
        console.print(Text(literal(text)), soft_wrap=True)
    if isinstance(event, PlannedSearch):
        for note in event.notes:
            console.print(Text(literal(note), "yellow"), soft_wrap=True)


# --- A result file of the original model-search study, for a terminal: time by stage and model


def search_results_parts(results: SearchJson) -> tuple[RenderableType, ...]:
    """One line per stage, model and batch size, longest first."""
    rows = [
        (*_whose(cell, first=number == 0), stage, figure(seconds), percent(seconds / (sum(cell.stage_s.values()) or 1)))
        for cell in results.cells
        for number, (stage, seconds) in enumerate(sorted(cell.stage_s.items(), key=lambda timed: -timed[1]))
    ]
    notes = ["Times are seconds over all batches, as in the file, which has no trials, intervals or verdicts."]
    notes += [f"left out: {sentence(skipped)}" for skipped in results.skipped]
    return (
        Text(literal(f"{results.path}: result of the original model-search study"), "bold"),
        listing(("model", "batch", "batches", "whole s", "stage", "s", "of the stages"), rows),
        sentence_list(notes),
    )


def _whose(cell: ModelTimes, *, first: bool) -> tuple[str, str, str, str]:
    if not first:
        return "", "", "", ""
    whole = NOTHING if cell.end_to_end_s is None else figure(cell.end_to_end_s)
    return cell.model, str(cell.batch), str(cell.batches), whole
