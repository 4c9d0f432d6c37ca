"""A comparison in sentences that quote their numbers."""

from collections.abc import Iterable, Sequence

from cotenant.analyse.comparison.outcomes import ComparisonOutcome
from cotenant.analyse.comparison.pair import CommonChange, PairComparison, RowChange, TenantChange
from cotenant.analyse.comparison.series import SeriesRow
from cotenant.tenancy.interval import Estimate, Number
from cotenant.text import amount, percent

MOST_ROWS = 5
"""Rows named individually; the rest are counted."""


def comparison_sentences(found: PairComparison) -> list[str]:
    """The answer first, then the common part, single rows, open questions and other differences.

    Numbers of trials that are mostly not valid are not quoted.
    """
    others = [*_unmatched("before", found.only_before), *_unmatched("now", found.only_now), *found.notes]
    if found.withheld:
        return [_headline(found), *_refused(found.rows), *others]
    named = {tenant.of for tenant in found.tenants if tenant.outcome.verdict in {"slower", "faster"}}
    # Don't repeat for each row what the sentence about its tenant covers.
    single = [row for row in found.rows if row.outcome.verdict in {"slower", "faster"} and row.of not in named]
    lines = [
        _headline(found),
        *([_common(found.common, found.margin)] if found.common else _no_common(found)),
        *(_tenant(tenant, found.rows) for tenant in found.tenants if tenant.of in named),
        *(_row(row, found.rows) for row in single[:MOST_ROWS]),
        *_more(single),
        *_tokens(found.rows),
        *_unserved(found.rows),
        *_open(found),
        *_refused(found.rows),
        *others,
    ]
    return [line for line in lines if line]


def row_name(row: SeriesRow) -> str:
    """`bert in bert+gpt2 (pinned)`, `bert alone`; with its load and settings."""
    settings = "" if row.settings in {"", "{}"} else f", {row.settings}"
    if row.solo:
        return f"{row.tenant} alone ({row.load}{settings})"
    return f"{row.tenant} in {row.mix} ({row.sharing}, {row.load}{settings})"


def row_reason(change: RowChange, found: PairComparison) -> str:  # noqa: PLR0911  (one return per case)
    """The sentence that gives the reason for a row's verdict."""
    outcome = change.outcome
    taken_out = " without what all tenants have in common" if found.common else ""
    own = f"{_with_ends(outcome.own)}{taken_out}"
    within = percent(found.margin)
    match outcome.because:
        case "beyond the margin":
            return f"shown to be more than {within} {outcome.verdict}: {own} (p = {outcome.p_value or 0:.2g})"
        case "within the margin":
            return f"shown to be within {within}: {own}{_hidden_by_clock(outcome)}"
        case "the clock":
            return f"slower, but so was the clock: {_clock(outcome)}; not the code, if its work scales with the clock"
        case "all tenants alike":
            return f"{outcome.verdict} as all tenants are: the machine, or something that all of them use"
        case "requests not served":
            return f"judged by requests that were not served: {change.detail}"
        case "not valid":
            return "no verdict, since the trials are mostly not valid"
        case "too noisy":
            return f"neither within {within} nor beyond it can be shown: {own}; {_missing(outcome)}"
    return change.detail


def _headline(found: PairComparison) -> str:
    if found.withheld:
        return f"No verdict: {found.withheld}. Measure again on a quiet machine."
    slower = [tenant.of for tenant in found.tenants if tenant.outcome.regression]
    rows = [row for row in found.rows if row.outcome.regression]
    if found.common and found.common.outcome.regression:
        return "Slower: everything, by about as much."
    if slower:
        return f"Slower: {' and '.join(slower)}."
    if rows:
        tenants = list(dict.fromkeys(row.row.tenant for row in rows))
        return f"Slower: {' and '.join(tenants)}, in {len(rows)} of {len(found.rows)} cells."
    if not any(row.outcome.p_value is not None for row in found.rows):
        return "No verdict: no cell could be compared."
    return f"Nothing is shown to be more than {percent(found.margin)} slower{_but_the_clock(found)}."


def _but_the_clock(found: PairComparison) -> str:
    return ", but for what the clock explains" if any(row.outcome.because == "the clock" for row in found.rows) else ""


def _common(common: CommonChange, margin: float) -> str:
    outcome = common.outcome
    who = f"{common.alike} of {common.tenants} tenants alone moved alike, {_with_ends(outcome.total)}"
    if outcome.because == "the clock":
        return f"{who}: the clock did ({_clock(outcome)}), not the code."
    if outcome.verdict in {"slower", "faster"}:
        return f"{who}: that is the machine or something that all of them use, not one tenant."
    if outcome.verdict == "same":
        return f"{who}: what a machine does between two runs, within {percent(margin)}, so it was taken out."
    return f"{who}: too uncertain to call it a change; it was taken out."


def _no_common(found: PairComparison) -> Iterable[str]:
    alone = {row.of for row in found.rows if row.row.solo}
    if len(alone) < 3:
        yield (
            "With fewer than three tenants measured alone, a change of the machine can't be distinguished from "
            "one of the tenants: what all rows share is still in them."
        )
    else:
        yield "The tenants alone did not move together, so nothing common was taken out."


def _tenant(tenant: TenantChange, rows: Sequence[RowChange]) -> str:
    outcome = tenant.outcome
    mine = [row for row in rows if row.of == tenant.of]
    shown = sum(row.outcome.verdict == outcome.verdict for row in mine)
    alone = next((row for row in mine if row.row.solo and isinstance(row.outcome.total, Estimate)), None)
    beside = f" ({_with_ends(alone.outcome.total)} alone)" if alone else ""
    where = f"over its {tenant.rows} cells{beside}, {shown} of which show it by themselves"
    if outcome.because == "the clock":
        return f"{tenant.of} is {_with_ends(outcome.total)} slower {where}, but so was the clock: {_clock(outcome)}."
    if outcome.because == "all tenants alike":
        return f"{tenant.of} is {outcome.verdict} as all are: {_with_ends(outcome.total)} {where}."
    return f"{tenant.of} is {outcome.verdict}: {_with_ends(outcome.own)} {where}."


def _row(change: RowChange, rows: Sequence[RowChange]) -> str:
    outcome = change.outcome
    name = row_name(change.row)
    if outcome.because == "the clock":
        return f"{name} is slower, {_with_ends(outcome.total)}, but so was the clock: {_clock(outcome)}: not the code."
    if outcome.because == "requests not served":
        return f"{name} is {outcome.verdict}: {change.detail}."
    return f"{name} is {outcome.verdict}: {_with_ends(outcome.own)}{_where_it_lies(change, rows)}."


def _where_it_lies(change: RowChange, rows: Sequence[RowChange]) -> str:
    """Say whether the tenant itself changed or only the cost of sharing."""
    if change.row.solo:
        return ""
    for other in rows:
        same_place = (other.row.load, other.row.settings) == (change.row.load, change.row.settings)
        if other.row.solo and other.of == change.of and same_place:
            if other.outcome.verdict == "same":
                return ", and alone it is as fast as before: the cost of sharing changed"
            if other.outcome.verdict == change.outcome.verdict:
                return f", and so it is alone ({_with_ends(other.outcome.own)})"
    return ""


def _more(single: Sequence[RowChange]) -> Iterable[str]:
    rest = single[MOST_ROWS:]
    if rest:
        slower = sum(row.outcome.verdict == "slower" for row in rest)
        yield f"{len(rest)} more cells changed, {slower} of them for the slower."


def _tokens(rows: Sequence[RowChange]) -> Iterable[str]:
    """Tenants that generate tokens, those whose intervals exclude 1 first."""
    found = [(row, change) for row in rows for change in row.tokens]
    moved = [(row, change) for row, change in found if not _holds(change.ratio, 1.0)]
    for row, change in moved[:MOST_ROWS]:
        times = f"{change.before_ms:.3g} ms before, {change.now_ms:.3g} ms now, {_with_ends(change.ratio)}"
        yield f"{change.metric} of {row_name(row.row)}: {times}."
    if found and not moved:
        cells = amount(len({id(row) for row, _ in found}), "cell")
        yield f"TTFT and TPOT did not move in {cells} that generate."


def _holds(estimate: Estimate, value: float) -> bool:
    return estimate.lo is not None and estimate.hi is not None and estimate.lo <= value <= estimate.hi


def _unserved(rows: Sequence[RowChange]) -> Iterable[str]:
    for row in rows:
        if row.outcome.because == "requests not served" and row.outcome.verdict in {"same", "ambiguous"}:
            yield f"{row_name(row.row)}: {row.detail}; its latency can't be compared under overload."


def _open(found: PairComparison) -> Iterable[str]:
    same = [row for row in found.rows if row.outcome.verdict == "same"]
    noisy = [row for row in found.rows if row.outcome.because == "too noisy"]
    if same:
        yield f"{len(same)} of {len(found.rows)} cells are shown to be the same within {percent(found.margin)}."
    if noisy:
        hopeless = sum(row.outcome.blocks_missing is None for row in noisy)
        wanted = [row for row in noisy if row.outcome.blocks_missing is not None]
        line = f"{len(noisy)} of {len(found.rows)} cells are ambiguous"
        if wanted:
            neediest = max(wanted, key=lambda row: row.outcome.blocks_missing or 0)
            line += f"; the neediest, {row_name(neediest.row)}, needs {_missing(neediest.outcome)}"
        if hopeless:
            line += (
                f"; {hopeless} {'lies' if hopeless == 1 else 'lie'} so near the margin that more blocks won't decide"
            )
        yield f"{line}."


def _refused(rows: Sequence[RowChange]) -> Iterable[str]:
    groups: dict[tuple[str, str], list[RowChange]] = {}
    for row in rows:
        if row.outcome.p_value is None:
            groups.setdefault((row.of, row.detail), []).append(row)
    for (_, detail), group in groups.items():
        more = f" and {len(group) - 1} more cells" if len(group) > 1 else ""
        yield f"{row_name(group[0].row)}{more} can't be compared: {detail}."


def _unmatched(when: str, rows: Sequence[SeriesRow]) -> Iterable[str]:
    if rows:
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        yield f"Measured only {when}: {row_name(rows[0])}{more}."


def _hidden_by_clock(outcome: ComparisonOutcome) -> str:
    cycles = outcome.cycles
    if isinstance(cycles, Estimate) and cycles.lo is not None and cycles.lo > 1.03 and (outcome.clock.est or 1) > 1.01:
        return f"; but the clock was faster: in cycles it is {_with_ends(cycles)}"
    return ""


def _clock(outcome: ComparisonOutcome) -> str:
    return f"clock {_with_ends(outcome.clock)}, in cycles {_with_ends(outcome.cycles)}"


def _missing(outcome: ComparisonOutcome) -> str:
    if outcome.blocks_missing is None:
        return "it lies so near the margin that more blocks won't decide"
    more = outcome.blocks_missing
    return f"about {amount(more, 'more block')} in each run"


def _with_ends(number: Number) -> str:
    if number.est is None:
        return "no number"
    ends = "" if number.lo is None or number.hi is None else f" [{number.lo:.3f}, {number.hi:.3f}]"
    return f"{number.est:.3f}x{ends}"
