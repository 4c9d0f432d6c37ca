"""`python -m validation.watching`: how often `watch` is right about servers whose interference is known.

python -m validation.watching --seeds 100 --write docs/validation-watch.md
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np

from cotenant.analyse.neighbours.influence import Influence
from cotenant.analyse.neighbours.totals import Floats, Totals
from cotenant.analyse.neighbours.watching import TenantTotals, watched_of
from cotenant.cli.output import console
from cotenant.reporting.elements.markdown import table
from cotenant.tenancy.interval import Estimate
from cotenant.text import percent
from validation.scripted_neighbours import BUCKETS_S, Script, Served, play

FACTORS = (1.0, 1.2, 2.0)
READ_EVERY_S = 2.0

PAGE = """# Who slows whom: `watch` against a known truth

Two scripted servers on simulated time, for 60 minutes. Server B takes longer by a set factor while server A works. B
has bursts of its own, half of which come with busy times of A; B's speed drifts by about 15 % within half an hour; a
third neighbour that publishes nothing slows B by 30 % half of the time; and B slows A by half. `watch` sees what it
would read of real servers every 2 s: totals of requests and of their time. The truth is the mean time of B's requests
while A is busy, over that of the same requests with A's influence removed.

{table}

From {seeds} seeds of each, by `python -m validation.watching --seeds {seeds}`.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A script: the truth, and what `watch` says."""

    truth: float
    found: Influence

    @property
    def holds(self) -> bool:
        """The interval contains the truth."""
        busy = self.found.busy
        return isinstance(busy, Estimate) and busy.lo is not None and busy.hi is not None and (
            busy.lo <= self.truth <= busy.hi
        )  # fmt: skip


def judged(script: Script) -> Outcome:
    """Play a script and watch it."""
    a, b, truth = play(script)
    t_s = np.arange(0.0, 60 * script.minutes, READ_EVERY_S)
    watched = watched_of([readings("A", a, t_s), readings("B", b, t_s)], device="simulated")
    return Outcome(truth, next(influence for influence in watched.influences if influence.tenant == "B"))


def readings(name: str, served: Served, t_s: Floats) -> TenantTotals:
    """A server's totals, as read at these times."""
    requests, latency_s, buckets = served.page(t_s)
    totals = {"requests": requests, "latency_s": latency_s, "latency_count": requests}
    return TenantTotals(
        name,
        "scripted",
        {role: Totals.of(t_s, values) for role, values in totals.items()},
        {"latency": dict(zip(BUCKETS_S, (buckets[-1] - buckets[0]).tolist(), strict=True))},
    )


def _seed(factor: float, seed: int) -> Outcome:
    return judged(Script(seed, factor))


def row(factor: float, outcomes: Sequence[Outcome]) -> list[str]:
    """A line of the table."""
    widths = [
        outcome.found.busy.relative_half_width for outcome in outcomes if isinstance(outcome.found.busy, Estimate)
    ]
    off = [
        outcome.found.busy.est / outcome.truth - 1 for outcome in outcomes if isinstance(outcome.found.busy, Estimate)
    ]
    verdicts = [outcome.found.verdict for outcome in outcomes]
    return [
        f"{factor:g}",
        f"{np.mean([outcome.truth for outcome in outcomes]):.3f}",
        f"{sum(outcome.holds for outcome in outcomes)} of {len(outcomes)}",
        percent(float(np.median([width for width in widths if width is not None]))),
        f"{100 * float(np.mean(off)):+.1f} %",
        *(str(verdicts.count(verdict)) for verdict in ("slows", "hardly", "can't tell")),
    ]


COLUMNS = ("set factor", "mean truth", "interval holds it", "median half-width", "mean error", "slows", "hardly slows",
           "can't tell")  # fmt: skip


@click.command("watching")
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--write", metavar="FILE", type=click.Path(path_type=Path))
def command(*, seeds: int, write: Path | None) -> None:
    """Compare what `watch` says with the truth."""
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for factor in FACTORS:
            rows.append(row(factor, list(pool.map(partial(_seed, factor), range(seeds)))))
            console(talk=True).print(dict(zip(COLUMNS, rows[-1], strict=True)))
    text = PAGE.format(table=table(COLUMNS, rows), seeds=seeds)
    if write is None:
        click.echo(text)
    else:
        write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    command()
