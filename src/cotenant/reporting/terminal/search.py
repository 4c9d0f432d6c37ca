"""The result of a search, for a terminal: the ranking with intervals, the baselines, and the time spent."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.ranking.outcome import Ranked, SearchOutcome
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.text import NOTHING, amount, duration, figure, percent, size


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
    said = []
    if any(line.left_in_round is not None for line in outcome.ranking):
        said.append("A round beside the items: the model was dropped in it, judged on the items seen until then.")
    if outcome.steps_alone:
        saved = 1 - outcome.steps_shared / outcome.steps_alone
        said.append(
            f"Of {outcome.steps_alone:,} steps per item {percent(saved)} were shared"
            + (f": {_most_shared(outcome)}." if outcome.shared else "; no two models have blocks in common.")
        )
    said.append(
        f"It took {duration(outcome.actual_s)} ({duration(outcome.predicted_s)} predicted) after "
        f"{duration(outcome.prepared_s)} of preparation, and {size(outcome.peak_bytes)} of the "
        f"{size(outcome.memory_bytes)} allowed."
    )
    if outcome.skipped:
        said.append(f"Rejected: {amount(outcome.skipped, 'item')} or empty classes.")
    if outcome.timed:
        said.append("Models with random weights were timed but not ranked: their scores would be meaningless.")
    return [*said, *outcome.notes]


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
    not_beaten = [one for one in outcome.baselines if not one.beaten]
    if not_beaten:
        names = " and ".join(one.name for one in not_beaten)
        return [f"Caution: {best.name} is not clearly above {names}."]
    return [f"{best.name} is above every baseline."]


def _most_shared(outcome: SearchOutcome) -> str:
    most = max(outcome.shared, key=lambda one: len(one.pieces) * (len(one.candidates) - 1))
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
