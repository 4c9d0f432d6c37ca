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
    columns = ("tenant", "objective", "limit ms", "plan ms", "measured ms", "attained %", "promise", "verdict")
    table = listing(
        columns,
        [
            (
                row.tenant,
                row.objective,
                figure(row.limit_ms),
                _ends(row.expected_ms, row.lower_ms, row.upper_ms),
                _ends(row.measured_ms, row.measured_lo, row.measured_hi),
                _percent(row),
                row.kept,
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
        return "too few requests"
    return f"{figure(value)} [{figure(lo) if lo is not None else '?'}, {figure(hi) if hi is not None else '?'}]"


def _percent(row: Beside) -> str:
    if row.attained is None or row.attained_lo is None or row.attained_hi is None:
        return ""
    return f"{row.attained * 100:.4g} [{row.attained_lo * 100:.4g}, {row.attained_hi * 100:.4g}]"
