"""A history of runs in sentences that quote their numbers."""

from collections.abc import Iterable

from cotenant.analyse.comparison.history import History, RowStep
from cotenant.analyse.comparison.sentences import row_name

MOST_ROWS = 5


def history_sentences(found: History) -> list[str]:
    """The answer, then each run at which something changed, then what was left out."""
    steps: dict[str, list[RowStep]] = {}
    for step in found.steps:
        steps.setdefault(step.run, []).append(step)
    span = f"over {len(found.runs)} runs ({found.runs[0][1][:10]} to {found.runs[-1][1][:10]})"
    lines = [
        f"Slower than before, and still so: {_who(found)} {span}."
        if found.regression
        else f"No cell became and stayed slower {span}.",
        (
            f"{found.rows} cells; without a change the level of a cell differs by {found.noise * 100:.2g} % from run "
            f"to run, and steps below {found.margin * 100:.3g} % are not reported."
        ),
    ]
    for run, together in steps.items():
        lines += _at(run, together)
    if found.left_out:
        lines.append(
            f"{len(found.left_out)} cells are not in every run with the same work and without overload, e.g. "
            f"{found.left_out[0]}."
        )
    return [*lines, *found.notes]


def _who(found: History) -> str:
    rows = [step for step in found.steps if step.regression]
    if any(step.row is None for step in rows):
        return "everything, by about as much"
    tenants = list(dict.fromkeys(step.row.tenant for step in rows if step.row))
    return f"{' and '.join(tenants[:MOST_ROWS])}, {len(rows)} of {found.rows} cells"


def _at(run: str, steps: list[RowStep]) -> Iterable[str]:
    for step in sorted(steps, key=lambda one: -abs(one.ratio.est - 1))[:MOST_ROWS]:
        what = row_name(step.row) if step.row else "what all tenants alone have in common"
        way = "slower" if step.ratio.est > 1 else "faster"
        clock = ", but so was the clock: not the code" if step.explained_by_clock else ""
        later = "" if step.last else ", until a later step"
        yield (
            f"From run {run} ({step.started_utc[:16]}) on, {what} is {step.ratio.est:.3f}x "
            f"[{step.ratio.lo:.3f}, {step.ratio.hi:.3f}], {way}{clock}{later}."
        )
    if len(steps) > MOST_ROWS:
        yield f"{len(steps) - MOST_ROWS} more cells changed at run {run}."
