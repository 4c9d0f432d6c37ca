"""Largest batches and the effect of batch size, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.measure.batching.impact import MARGIN, BatchAnswer
from cotenant.reporting.terminal.grouped import Fitting, Grouped, GroupedRows
from cotenant.reporting.terminal.literal import literal
from cotenant.text import figure, percent, size


def batch_tables(answers: Sequence[BatchAnswer]) -> tuple[RenderableType, ...]:
    """The best size, the largest batches, then a table per workload with measured sizes."""
    head = f"largest batch on {answers[0].device}"
    formats = list(dict.fromkeys(answer.dtype for answer in answers))
    if len(formats) == 1:
        head += f" in {formats[0]}"
    if answers[0].simulated:
        head += " (simulated: predicted from dry runs, not tried on hardware)"
    parts: list[RenderableType] = [Text(literal(advice), "bold") for answer in answers if (advice := _advice(answer))]
    parts += [Text(literal(head), "bold"), _largest(answers, several_formats=len(formats) > 1)]
    for answer in answers:
        if answer.impacts:
            parts += _impact(answer)
    return tuple(parts)


def _largest(answers: Sequence[BatchAnswer], *, several_formats: bool) -> Fitting:
    """Narrow pages drop the weights first, then the bytes per item."""
    rows = [
        {
            "workload": f"{answer.workload} {answer.dtype}" if several_formats else answer.workload,
            "weights": size(answer.predicted.growth.weight_bytes),
            "per item": size(answer.predicted.growth.per_item_in(answer.predicted.room)),
            "predicted": f"{answer.predicted.batch:,}",
            "verified": "not tried" if answer.verified is None else f"{answer.verified.largest:,}",
            "power of 2": f"{1 << (answer.largest.bit_length() - 1):,}" if answer.largest else "0",
            "safe": f"{answer.safe:,}",
            "ends by": answer.predicted.limit
            if answer.verified is None
            else (answer.verified.reason or "").split(":")[0],
        }
        for answer in answers
    ]
    every = tuple(rows[0])
    return Fitting(
        tuple(_plain(columns, [[row[name] for name in columns] for row in rows])
              for columns in (every, _without(every, "weights"), _without(every, "weights", "per item")))
    )  # fmt: skip


def _without(columns: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(name for name in columns if name not in names)


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Grouped:
    return Grouped(columns, [GroupedRows(Text(), tuple(tuple(Text(literal(cell)) for cell in row) for row in rows))])


def _impact(answer: BatchAnswer) -> list[RenderableType]:
    stages = list(dict.fromkeys(stage for impact in answer.impacts for stage in impact.stages_ms))
    estimated = ", simulated" if answer.simulated else ""
    columns = ("batch", "items/s", "95 % interval", "request", *stages)
    rows = [
        (
            f"{impact.batch:,}",
            figure(impact.items_per_s.est),
            "" if impact.items_per_s.lo is None or impact.items_per_s.hi is None
            else f"[{figure(impact.items_per_s.lo)}, {figure(impact.items_per_s.hi)}]",
            figure(impact.latency_ms),
            *(figure(impact.stages_ms.get(stage, 0.0)) for stage in stages),
        )
        for impact in answer.impacts
    ]  # fmt: skip
    title = f"effect of the batch on {answer.workload}{estimated}; request and its stages in ms"
    return [Text(literal(title), "bold"), _plain(columns, rows)]


def _advice(answer: BatchAnswer) -> str:
    """The best size where sizes were measured, else the largest safe one."""
    basis = ", simulated" if answer.simulated else ""
    if answer.advice is None:
        return f"{answer.workload}: at most {answer.safe:,} items at once are safe{basis}."
    reason = answer.advice.reason
    if answer.advice.batch is None:
        return f"{answer.workload}: {reason}{basis}."
    return f"{answer.workload}: take a batch of {answer.advice.batch:,}{basis}. {reason[0].upper()}{reason[1:]}."


def batch_note() -> Text:
    """The meaning of the columns, in one line."""
    return Text(f"safe: {percent(MARGIN)} below the largest, to allow for fragmentation and longer inputs", "dim")
