"""Promises: those of a dry run of `serve`, and those that were judged by what came."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.promises import JudgedPromise, promise_sentence
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, duration, figure, in_time, percent

if TYPE_CHECKING:
    from cotenant.serving.dry_run import Promise


def judged_parts(rows: Sequence[JudgedPromise], *, simulated: bool = False) -> tuple[RenderableType, ...]:
    """How many objectives were kept, then each of them, and how far it was from the plan's range."""
    if not rows:
        return ()
    planned = any(row.upper_ms is not None for row in rows)
    table = listing(
        ("tenant", "limit ms", "in time", "verdict", *(("plan ms",) if planned else ()), "measured ms"),
        [
            (
                row.tenant,
                f"{row.objective} {figure(row.limit_ms)}",
                NOTHING if row.share is None else f"{in_time(row.share)} of {row.requests:,}",
                row.verdict,
                *((_range(row),) if planned else ()),
                _measured(row),
            )
            for row in rows
        ],
    )
    lines = [*undecided_lines(rows), *(["the run is simulated"] if simulated else [])]
    return Text(literal(promise_sentence(rows)), "bold"), table, Text(literal("\n".join(lines)))


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
    if row.lower_ms is None or row.upper_ms is None:
        return NOTHING
    return f"{figure(row.lower_ms)}-{figure(row.upper_ms)}"


def _measured(row: JudgedPromise) -> str:
    """`40.0 (+29 %)`: above the plan's range; with `?` if the measured interval overlaps it."""
    if row.measured_ms is None:
        return "too few"
    value = figure(row.measured_ms)
    if not row.outside:
        return value
    doubt = "" if row.clearly_outside else "?"
    return f"{value} ({'+' if row.outside > 0 else '-'}{percent(abs(row.outside))}{doubt})"


def promise_parts(found: "Promise") -> tuple[Text, Table]:
    """The answer, then each tenant."""
    broken = [one.tenant for one in found.tenants if not one.kept]
    answer = "Every objective will be met." if not broken else f"Missed: {', '.join(broken)}."
    basis = "measured here" if found.basis == "measured" else found.basis
    said = Text(f"{answer} Simulated for {duration(found.seconds)} on {found.device}, 5 seeds; costs {basis}.")
    table = Table(box=None, pad_edge=False)
    for name in ("tenant", "objective", "demand", "in time", "worst seed", ""):
        table.add_column(name, justify="left" if name in ("tenant", "") else "right")
    for one in found.tenants:
        table.add_row(
            one.tenant,
            duration(one.objective_ms / 1e3),
            percent(one.asked_share),
            percent(one.attainment),
            percent(one.worst),
            "kept" if one.kept else f"below {percent(one.quantile)}",
        )
    return said, table
