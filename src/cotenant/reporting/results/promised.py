"""Promises of a plan: checked under simulated arrivals, before serving, and as they were kept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.analyse.judged_promises import JudgedPromise, promise_sentence
from cotenant.reporting.elements import DataTable, Element, Sentence, Sentences
from cotenant.text import NOTHING, amount, figure, in_time, percent, with_interval

if TYPE_CHECKING:
    from cotenant.planning.check import Attained


def check_elements(tenants: Sequence["Attained"], basis: str) -> list[Element]:
    """Whether the plan holds, then tenant by tenant."""
    verdicts = [tenant.verdict for tenant in tenants]
    kept = verdicts.count("kept")
    answer = f"{kept} of {amount(len(tenants), 'objective')} kept under simulated arrivals"
    for word in ("missed", "can't tell"):
        names = ", ".join(dict.fromkeys(tenant.tenant for tenant in tenants if tenant.verdict == word))
        answer += f"; {word}: {names}" if names else ""
    columns = ("tenant", "limit ms", "in time %", "there, ms", "verdict")  # within 80 columns
    rows = tuple(
        (
            tenant.tenant,
            f"{tenant.objective} {figure(tenant.objective_ms)}",
            with_interval(tenant.attained.scaled(100), "{:.1f}".format),
            figure(tenant.tail_ms.est) if tenant.tail_ms.lo is None else with_interval(tenant.tail_ms),
            tenant.verdict,
        )
        for tenant in tenants
    )
    return [Sentence(answer, "answer"), DataTable(columns, rows), Sentence(basis)]


def judged_elements(rows: Sequence[JudgedPromise], *, simulated: bool = False) -> list[Element]:
    """How many objectives were kept, then each of them, and how far it was from the plan's range."""
    if not rows:
        return []
    planned = any(row.expected_ms is not None for row in rows)
    table = DataTable(
        ("tenant", "limit ms", "in time", "verdict", *(("plan ms",) if planned else ()), "measured ms"),
        tuple(
            (
                row.tenant,
                f"{row.objective} {figure(row.limit_ms)}",
                NOTHING if row.share is None else f"{in_time(row.share.est)} of {row.requests:,}",
                row.verdict,
                *((_range(row),) if planned else ()),
                _measured(row),
            )
            for row in rows
        ),
    )
    lines = (*undecided_lines(rows), *(["the run is simulated"] if simulated else []))
    return [Sentence(promise_sentence(rows), "answer"), table, Sentences(lines, plain=True)]


def undecided_lines(rows: Sequence[JudgedPromise]) -> list[str]:
    """What would decide each objective without a verdict."""
    lines = []
    for row in rows:
        if row.verdict != "can't tell":
            continue
        what = f"{row.tenant} {row.objective}"
        if row.reason is not None:
            lines.append(f"{what}: {row.reason}")
        elif row.more is None:
            lines.append(f"{what}: the share in time is too close to {in_time(row.quantile)} to decide")
        else:
            usual = " if as many are in time as so far" if row.requests else ", all of them in time"
            lines.append(f"{what}: {row.more:,} more requests decide{usual}")
    return lines


def _range(row: JudgedPromise) -> str:
    return NOTHING if row.expected_ms is None else "-".join(map(figure, row.expected_ms.ends))


def _measured(row: JudgedPromise) -> str:
    """`40.0 (+29 %)`: above the plan's range; with `?` if the measured interval overlaps it."""
    if row.measured_ms is None:
        return "too few"
    value = figure(row.measured_ms.est)
    if not row.outside:
        return value
    doubt = "" if row.clearly_outside else "?"
    return f"{value} ({'+' if row.outside > 0 else '-'}{percent(abs(row.outside))}{doubt})"
