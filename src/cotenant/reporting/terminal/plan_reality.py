"""A plan compared with its run, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.planning.mixes.reality import Beside
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import amount, figure


def reality_parts(rows: Sequence[Beside], *, simulated: bool) -> tuple[RenderableType, ...]:
    """The number of figures as planned, then each objective."""
    table = listing(
        ("tenant", "limit ms", "plan ms", "measured ms", "in time", "verdict"),
        [
            (
                row.tenant,
                f"{row.objective} {figure(row.limit_ms)}",
                f"{figure(row.lower_ms)} to {figure(row.upper_ms)}",
                _ends(row.measured_ms, row.measured_lo, row.measured_hi),
                _in_time(row),
                row.verdict,
            )
            for row in rows
        ],
    )
    return Text(literal(answer_of(rows)), "bold"), table, Text("the run is simulated" if simulated else "")


def answer_of(rows: Sequence[Beside]) -> str:
    """`4 of 5 objectives are as planned; slower: chat`."""
    said = f"{sum(row.verdict == 'as planned' for row in rows)} of {amount(len(rows), 'objective')} as planned"
    for word in ("slower", "faster", "can't tell"):
        names = ", ".join(dict.fromkeys(row.tenant for row in rows if row.verdict == word))
        said += f"; {word}: {names}" if names else ""
    missed = ", ".join(dict.fromkeys(row.tenant for row in rows if row.kept == "missed"))
    return said + (f"; missed: {missed}" if missed else "; no objective was missed")


def _ends(value: float | None, lo: float | None, hi: float | None) -> str:
    if value is None:
        return "too few"
    return figure(value) if lo is None or hi is None else f"{figure(value)} [{figure(lo)}, {figure(hi)}]"


def _in_time(row: Beside) -> str:
    """`99.6 %`; the interval is in the JSON."""
    return "" if row.attained is None else f"{row.attained * 100:.4g} %"
