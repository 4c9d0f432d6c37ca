"""Largest batches and the effect of batch size."""

from collections.abc import Sequence

from cotenant.measure.batching import MARGIN, BatchAnswer
from cotenant.reporting.elements import DataTable, Element, Sentence, grouped
from cotenant.text import figure, percent, size

NOTE = f"safe: {percent(MARGIN)} below the largest, to allow for fragmentation and longer inputs"


def batch_elements(answers: Sequence[BatchAnswer]) -> list[Element]:
    """The best size, the largest batches, then a table per workload with measured sizes."""
    head = f"largest batch on {answers[0].device}"
    formats = list(dict.fromkeys(answer.dtype for answer in answers))
    if len(formats) == 1:
        head += f" in {formats[0]}"
    if answers[0].simulated:
        head += " (simulated: predicted from dry runs, not tried on hardware)"
    advice = [Sentence(text, "answer") for answer in answers if (text := _advice(answer))]
    elements: list[Element] = [*advice, Sentence(head, "title"), _largest(answers, several_formats=len(formats) > 1)]
    for answer in answers:
        elements += _impact(answer) if answer.impacts else []
    return elements


def _largest(answers: Sequence[BatchAnswer], *, several_formats: bool) -> DataTable:
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

    def table(narrow: DataTable | None, *without: str) -> DataTable:
        columns = [name for name in rows[0] if name not in without]
        return grouped(columns, [("", tuple(row[name] for name in columns)) for row in rows], narrow)

    return table(table(table(None, "weights", "per item"), "weights"))


def _impact(answer: BatchAnswer) -> list[Element]:
    stages = list(dict.fromkeys(stage for impact in answer.impacts for stage in impact.stages_ms))
    estimated = ", simulated" if answer.simulated else ""
    rows = []
    for impact in answer.impacts:
        lo, hi = impact.items_per_s.lo, impact.items_per_s.hi
        ends = "" if lo is None or hi is None else f"[{figure(lo)}, {figure(hi)}]"
        times = (figure(ms) for ms in (impact.latency_ms, *(impact.stages_ms.get(stage, 0.0) for stage in stages)))
        rows.append(("", (f"{impact.batch:,}", figure(impact.items_per_s.est), ends, *times)))
    title = f"effect of the batch on {answer.workload}{estimated}; request and its stages in ms"
    columns = ("batch", "items/s", "95 % interval", "request", *stages)
    return [Sentence(title, "title"), grouped(columns, rows)]


def _advice(answer: BatchAnswer) -> str:
    """The best size where sizes were measured, else the largest safe one."""
    basis = ", simulated" if answer.simulated else ""
    if answer.advice is None:
        return f"{answer.workload}: at most {answer.safe:,} items at once are safe{basis}."
    reason = answer.advice.reason
    if answer.advice.batch is None:
        return f"{answer.workload}: {reason}{basis}."
    return f"{answer.workload}: take a batch of {answer.advice.batch:,}{basis}. {reason[0].upper()}{reason[1:]}."
