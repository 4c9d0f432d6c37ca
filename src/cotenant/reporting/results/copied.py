"""The result of `copies`; and copies of a tenant as one line of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from cotenant.analyse.copies_answer import CopiesAnswer
from cotenant.analyse.copy_options import CopiesOption
from cotenant.analyse.sharing import Cell, TenantSummary
from cotenant.reporting.elements import DataTable, Element, Remark, Sentence, Sentences
from cotenant.text import NOTHING, figure, size, times, with_interval, without_interval

COLUMNS = ("", "copies", "way", "req/s", "against one", "p99 ms", "cores", "memory", "starts")


def copies_elements(answer: CopiesAnswer) -> list[Element]:
    """The answer on one screen."""
    sentences = [*answer.headline, *(sentence for sentence in (answer.limit, answer.cost) if sentence is not None)]
    elements: list[Element] = [Sentence(sentence, "answer") for sentence in sentences]
    if answer.options:
        rows = tuple(_row(option, chosen=option == answer.chosen) for option in answer.options)
        elements.append(DataTable(COLUMNS, rows, numbers=frozenset(COLUMNS) - {"", "way"}, ruled=False))
    tuning = [] if answer.tuning is None or answer.verdict == "no baseline" else [answer.tuning.sentence]
    rest = (*tuning, *answer.rejected, *answer.remarks, *(f"Left out: {count}." for count in answer.left_out))
    if rest:
        elements.append(Sentences(rest, plain=True))
    if answer.simulated:
        elements.append(Remark("Simulated: nothing was started. Intervals include the model's error."))
    return elements


def _row(option: CopiesOption, *, chosen: bool) -> tuple[str, ...]:
    made = option.reliability
    return (
        "→" if chosen else "",
        str(option.copies),
        NOTHING if option.copies == 1 else option.way,
        without_interval(option.throughput_rps),
        times(option.gain),
        with_interval(option.latency_ms["p99"]),
        NOTHING if option.cores is None else figure(option.cores, 2),
        NOTHING if not option.memory_bytes else size(option.memory_bytes),
        f"{made.starts - made.failures} of {made.starts}",
    )


# --- copies of a tenant in a mix


TOKENS = ("ttft_ms", "tpot_ms", "itl_ms")


def copies_grouped(tenants: Iterable[TenantSummary]) -> list[TenantSummary]:
    """The tenants of each cell, copies of one workload together, in their order."""
    groups: dict[tuple[Cell, str], list[TenantSummary]] = {}
    for tenant in tenants:
        groups.setdefault((tenant.cell, tenant.of), []).append(tenant)
    return [group[0] if len(group) == 1 else _together(group) for group in groups.values()]


def copies_name(of: str, count: int) -> str:
    """`distilgpt2 x10, each`."""
    return f"{of} x{count}, each"


def _together(copies: Sequence[TenantSummary]) -> TenantSummary:
    """The slowest of them stands for objectives."""
    slowest = max(copies, key=lambda copy: copy.slowdown.est or 0.0)
    tokens = [copy.tokens for copy in copies if copy.tokens is not None]
    return replace(
        slowest,
        tenant=copies_name(slowest.of, len(copies)),
        requests=sum(copy.requests for copy in copies),
        unfinished=sum(copy.unfinished for copy in copies),
        throughput_rps=_mean([copy.throughput_rps for copy in copies]),
        mean_latency_ms=_mean([copy.mean_latency_ms for copy in copies]),
        slowdown=_mean([copy.slowdown for copy in copies]),
        latency_ms=_quantiles([copy.latency_ms for copy in copies]),
        tokens=None
        if not tokens
        else replace(
            tokens[0],
            tokens_per_s=_mean([each.tokens_per_s for each in tokens]),
            **{times: _quantiles([getattr(each, times) for each in tokens]) for times in TOKENS},
        ),
    )


def _quantiles(many: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: _mean([quantiles[name] for quantiles in many]) for name in many[0]}


def _mean(numbers: Sequence[Any]) -> Any:
    """The mean estimate, with the ends of all intervals; the first number where one has no estimate."""
    missing = next((number for number in numbers if number.est is None), None)
    if missing is not None:
        return missing
    lows, highs = [number.lo for number in numbers], [number.hi for number in numbers]
    return replace(
        numbers[0],
        est=fmean(number.est for number in numbers),
        lo=None if None in lows else min(lows),
        hi=None if None in highs else max(highs),
        n=sum(number.n for number in numbers),
    )
