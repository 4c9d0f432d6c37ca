"""Largest batches and what the size does, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.batching.answer import MARGIN, BatchAnswer
from cotenant.report.listing import listing
from cotenant.report.literal import literal
from cotenant.report.numbers import figure, size


def batch_tables(answers: Sequence[BatchAnswer]) -> tuple[RenderableType, ...]:
    """The largest batches, then for each workload with measured sizes a table of them and the advice."""
    head = f"largest batch on {answers[0].device}"
    if answers[0].simulated:
        head += " (simulated: predicted from dry runs, not tried on hardware)"
    parts: list[RenderableType] = [Text(literal(head), "bold"), _largest(answers)]
    for answer in answers:
        if answer.impacts:
            parts += _impact(answer)
    return tuple(parts)


def _largest(answers: Sequence[BatchAnswer]) -> RenderableType:
    columns = ("workload", "dtype", "weights", "per item", "predicted", "verified", "power of 2", "safe", "ends by")
    rows = [
        (
            answer.workload,
            answer.dtype,
            size(answer.predicted.growth.weight_bytes),
            size(answer.predicted.growth.per_item_in(answer.predicted.room)),
            f"{answer.predicted.batch:,}",
            "not tried" if answer.verified is None else f"{answer.verified.largest:,}",
            f"{1 << (answer.largest.bit_length() - 1):,}" if answer.largest else "0",
            f"{answer.safe:,}",
            answer.predicted.limit if answer.verified is None else (answer.verified.reason or "").split(":")[0],
        )
        for answer in answers
    ]
    return listing(columns, rows)


def _impact(answer: BatchAnswer) -> list[RenderableType]:
    stages = list(dict.fromkeys(stage for one in answer.impacts for stage in one.stages_ms))
    estimated = ", simulated" if answer.simulated else ""
    columns = ("batch", "items/s", "95 % interval", "ms per request", *(f"{stage} ms" for stage in stages))
    rows = [
        (
            f"{one.batch:,}",
            figure(one.items_per_s.est),
            "" if one.items_per_s.lo is None or one.items_per_s.hi is None
            else f"[{figure(one.items_per_s.lo)}, {figure(one.items_per_s.hi)}]",
            figure(one.latency_ms),
            *(figure(one.stages_ms.get(stage, 0.0)) for stage in stages),
        )
        for one in answer.impacts
    ]  # fmt: skip
    parts: list[RenderableType] = [
        Text(literal(f"what the size does to {answer.workload}{estimated}"), "bold"),
        listing(columns, rows),
    ]
    if answer.advice is not None:
        chosen = "no batch" if answer.advice.batch is None else f"a batch of {answer.advice.batch:,}"
        parts.append(Text(literal(f"take {chosen}: {answer.advice.reason}")))
    return parts


def batch_note() -> Text:
    """What the columns mean, in one line."""
    return Text(f"safe: {MARGIN:.0%} below the largest, since fragmentation and longer inputs come later", "dim")
