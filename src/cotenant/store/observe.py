"""From records to observations for analysis: an observation per tenant and trial.

Definitions, the same for runs on disk (a query here) and for a trial in memory (`counting`):

* *due*: the request's `in_window` is true. The runner sets it for requests due in the window that were done while every
  tenant was active, or failed, or were never done.
* *served*: due, `ok`, and done. ``n`` counts these; ``unfinished`` counts what was due and not served.
* *latency*: done - intended of a served request. ``mean_latency_ns`` is NaN if there is none.
* *throughput*: ``n`` over the time it took. Closed loads: from the first start to the last end of the due requests,
  or to the end of the window if any of them never ended, since a hanging tenant is not faster. Open
  loads: from the start of the window to its end, or to the last end if that is later. 0 if nothing was served.
* *device time*: mean of ``device_ns`` over the served requests that have it.
* *within the objective*: served with a latency of at most ``slo_ms``; for generation with a time to first token
  (first - intended) of at most ``ttft_slo_ms``, and a time per output token ((done - first) / (tokens - 1); none for
  a single token) of at most ``tpot_slo_ms``. ``all_met`` counts the requests within all of them at once.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.store.counting import DEFAULT_SOFTWARE, Counted, count_trial
from cotenant.store.portions import of_trials, portions
from cotenant.store.reading import OpenRuns
from cotenant.tenancy.records import (
    CANARY,
    TOKEN_STAGES,
    Int64s,
    ModelErrorRecord,
    TenantObservation,
    TokenGoal,
    TokenTimes,
    TrialRecords,
)

Floats = npt.NDArray[np.float64]

_SERVED = "coalesce(ok, false) AND done_ns IS NOT NULL"

_LATENCY_KEPT = "done_ns - intended_ns <= slo_ms * 1e6"
_TTFT_KEPT = "first_ns - intended_ns <= ttft_slo_ms * 1e6"
_TPOT_KEPT = "first_ns IS NOT NULL AND (tokens_out = 1 OR done_ns - first_ns <= tpot_slo_ms * 1e6 * (tokens_out - 1))"

_TTFT = "CASE WHEN tokens_out IS NULL THEN NULL ELSE first_ns - intended_ns END"
_TPOT = "CASE WHEN tokens_out > 1 THEN (done_ns - first_ns) / (tokens_out - 1) END"

_OBSERVE = f"""
due AS NOT MATERIALIZED (
    SELECT *, {_SERVED} AS served FROM requests WHERE in_window
),
counted AS (
    -- Columns that are NULL unless served, not a FILTER on each aggregate: that takes twice as long.
    SELECT run, trial, tenant,
        count(*) FILTER (served) AS n,
        count(*) AS due,
        sum(if(served, done_ns - intended_ns, NULL)) AS latency_ns,
        sum(if(served, device_ns, NULL)) AS device_ns,
        count(if(served, device_ns, NULL)) AS device_n,
        min(started_ns) AS first_started_ns,
        max(done_ns) AS last_done_ns,
        sum(if(served, tokens_out, NULL)) AS tokens_out,
        avg(if(served, {_TTFT}, NULL)) AS ttft_ns,
        avg(if(served, {_TPOT}, NULL)) AS tpot_ns,
        count(*) - count(done_ns) AS never_done
    FROM due GROUP BY run, trial, tenant
),
kept AS (
    SELECT run, trial, tenant,
        count(*) FILTER ({_LATENCY_KEPT}) AS slo_met,
        count(*) FILTER (ttft_slo_ms IS NOT NULL AND {_TTFT_KEPT}) AS ttft_met,
        count(*) FILTER (tpot_slo_ms IS NOT NULL AND {_TPOT_KEPT}) AS tpot_met,
        count(*) FILTER ((slo_ms IS NULL OR {_LATENCY_KEPT})
            AND (ttft_slo_ms IS NULL OR {_TTFT_KEPT}) AND (tpot_slo_ms IS NULL OR ({_TPOT_KEPT}))) AS all_met
    FROM due JOIN (
        SELECT run, trial, tenant, slo_ms, ttft_slo_ms, tpot_slo_ms FROM tenants
        WHERE coalesce(slo_ms, ttft_slo_ms, tpot_slo_ms) IS NOT NULL
    ) USING (run, trial, tenant)
    WHERE served
    GROUP BY run, trial, tenant
),
canaries AS (
    SELECT run, trial, source AS tenant, avg(value) AS canary_us FROM samples WHERE sensor = '{CANARY}' GROUP BY ALL
)
SELECT run, trial, block, mix, sharing, settings, trials.load, device, coalesce(simulated, false),
    coalesce(solo, false), tenant, coalesce("of", tenant), verdict, failed_checks, window_start_ns, window_s,
    slo_ms, slo_quantile, ttft_slo_ms, ttft_slo_quantile, tpot_slo_ms, tpot_slo_quantile, member,
    starts_with(coalesce(tenants.load, trials.load), 'closed'),
    coalesce(n, 0), coalesce(due, 0), latency_ns, device_ns, device_n, slo_met, ttft_met, tpot_met, all_met,
    first_started_ns, last_done_ns, never_done, canary_us, foreign_share, model_error, tokens_out,
    rate_rps, ttft_ns, tpot_ns, coalesce(software, if(params IS NULL, NULL, '{DEFAULT_SOFTWARE}'))
FROM tenants JOIN trials USING (run, trial) LEFT JOIN counted USING (run, trial, tenant)
    LEFT JOIN kept USING (run, trial, tenant) LEFT JOIN canaries USING (run, trial, tenant)
ORDER BY device, mix, sharing, settings, trials.load, coalesce("of", tenant), tenant, run, block, trial
"""  # noqa: S608  (made of constants)

_LATENCIES = f"""
SELECT place, file_row_number AS row, done_ns - intended_ns AS latency_ns{{also}}
FROM ({{source}}) JOIN (
    SELECT unnest($run) AS run, unnest($trial) AS trial, unnest($tenant) AS tenant, unnest($place) AS place
) USING (run, trial, tenant)
WHERE in_window AND {_SERVED} AND intended_ns IS NOT NULL
"""  # noqa: S608  (made of constants, and of a source whose names are quoted where it is made)

_TOKENS = f", {_TTFT} AS ttft_ns, {_TPOT} AS tpot_ns"


_GAPS = f"""
SELECT place, duration_ns
FROM ({{stages}}) JOIN (
    SELECT unnest($run) AS run, unnest($trial) AS trial, unnest($tenant) AS tenant, unnest($place) AS place
) USING (run, trial, tenant) JOIN (
    SELECT run, trial, tenant, seq FROM ({{requests}}) WHERE in_window AND {_SERVED}
) USING (run, trial, tenant, seq)
WHERE stage IN ({", ".join(f"'{name}'" for name in TOKEN_STAGES)})
ORDER BY place
"""  # noqa: S608  (made of constants, and of sources whose names are quoted where they are made)


def observations(runs: OpenRuns, *, raw: bool) -> Iterator[TenantObservation]:
    """Every tenant of every trial of the runs, including calibration trials (`block` < 0).

    All trials of a cell (device, mix, sharing, settings, load, tenant) are consecutive. With ``raw``, each
    observation carries its latencies, read in portions to bound memory.
    """
    if not runs.counted:
        runs.counted.extend(Counted(*row) for row in runs.con.execute("WITH" + _OBSERVE).fetchall())
    rows: Sequence[Counted] = runs.counted
    if not raw:
        yield from (_observation(row, None) for row in rows)
        return
    for portion in portions(rows, (max(row.n, row.tokens_out or 0) for row in rows)):
        yield from map(_observation, portion, *_times(runs, portion))


def observe_trial(records: TrialRecords, run: str, *, raw: bool = False) -> tuple[TenantObservation, ...]:
    """The same for a trial in memory, sorted by tenant name."""
    return tuple(
        _observation(row, latency, tokens) if raw else _observation(row, None)
        for row, latency, tokens in count_trial(records, run)
    )


def counted_rows(records: TrialRecords, run: str) -> list[list[Any]]:
    """The counts behind `observe_trial` as plain data, for another process; see `counted_from`."""
    return [list(astuple(row)) for row, _, _ in count_trial(records, run)]


def counted_from(rows: Sequence[Sequence[Any]]) -> tuple[TenantObservation, ...]:
    """Observations of trials that were counted elsewhere."""
    return tuple(_observation(Counted(*row), None) for row in rows)


def _times(runs: OpenRuns, rows: Sequence[Counted]) -> tuple[list[Int64s], list[TokenTimes | None]]:
    """Latencies and token times of each row, in the order of its recorded requests."""
    served = [(place, row) for place, row in enumerate(rows) if row.n]
    if not served:
        return [np.empty(0, np.int64) for _ in rows], [None for _ in rows]
    generating = any(row.tokens_out is not None for _, row in served)
    source = of_trials(runs.files, "requests", ((row.run, row.trial) for _, row in served))
    found = runs.con.execute(
        _LATENCIES.format(source=source, also=_TOKENS if generating else ""),
        {
            "run": [row.run for _, row in served],
            "trial": [row.trial for _, row in served],
            "tenant": [row.tenant for _, row in served],
            "place": [place for place, _ in served],
        },
    ).fetchnumpy()
    place, row = np.ma.getdata(found["place"]).astype(np.int64), np.ma.getdata(found["row"])
    # Rows arrive in long sorted stretches, which a stable sort merges: far faster than ORDER BY.
    order = np.argsort(place * (int(row.max(initial=0)) + 1) + row, kind="stable")
    bounds = np.searchsorted(place, np.arange(1, len(rows)), sorter=order)
    latency = np.split(np.ma.getdata(found["latency_ns"])[order].astype(np.int64, copy=False), bounds)
    if not generating:
        return latency, [None for _ in rows]
    firsts, later = (map(_known, np.split(_or_nan(found[name])[order], bounds)) for name in ("ttft_ns", "tpot_ns"))
    gaps = _gaps(runs, rows)
    tokens = [
        TokenTimes(first, after, gap) if first.size else None
        for first, after, gap in zip(firsts, later, gaps, strict=True)
    ]
    return latency, tokens


def _gaps(runs: OpenRuns, rows: Sequence[Counted]) -> list[Int64s]:
    """Times between tokens of each row."""
    generating = [(place, row) for place, row in enumerate(rows) if row.n and row.tokens_out is not None]
    trials = [(row.run, row.trial) for _, row in generating]
    stages, requests = (of_trials(runs.files, table, trials) for table in ("stages", "requests"))
    if not generating or not stages:
        return [np.empty(0, np.int64) for _ in rows]
    found = runs.con.execute(
        _GAPS.format(stages=stages, requests=requests),
        {
            "run": [row.run for _, row in generating],
            "trial": [row.trial for _, row in generating],
            "tenant": [row.tenant for _, row in generating],
            "place": [place for place, _ in generating],
        },
    ).fetchnumpy()
    bounds = np.searchsorted(np.ma.getdata(found["place"]), np.arange(1, len(rows)))
    return [_known(times) for times in np.split(_or_nan(found["duration_ns"]), bounds)]


def _or_nan(column: Any) -> Floats:
    """A column with NaN where it is NULL: splitting a masked array takes ten times as long."""
    return np.ma.filled(column.astype(np.float64), np.nan)


def _known(values: Floats) -> Int64s:
    """Existing values, to the nanosecond."""
    return np.asarray(np.rint(values[~np.isnan(values)]), np.int64)


def _observation(row: Counted, latency_ns: Int64s | None, token_times: TokenTimes | None = None) -> TenantObservation:
    return TenantObservation(
        run=row.run,
        trial=row.trial,
        block=row.block,
        mix=row.mix,
        sharing=row.sharing,
        settings=row.settings,
        load=row.load,
        device=row.device,
        simulated=row.simulated,
        solo=row.solo,
        tenant=row.tenant,
        of=row.of,
        verdict=row.verdict,
        failed_checks=tuple(row.failed_checks or ()),
        n=row.n,
        unfinished=row.due - row.n,
        throughput_rps=_throughput(row),
        mean_latency_ns=int(row.latency_ns) / row.n if row.latency_ns is not None else math.nan,
        window_s=row.window_s,
        mean_device_ns=int(row.device_ns) / row.device_n if row.device_ns is not None and row.device_n else None,
        slo_ms=row.slo_ms,
        slo_quantile=row.slo_quantile,
        slo_met=None if row.slo_ms is None else row.slo_met or 0,
        token_goals=_token_goals(row),
        all_met=None if row.ttft_slo_ms is None and row.tpot_slo_ms is None else row.all_met or 0,
        canary_us=row.canary_us,
        foreign_share=row.foreign_share,
        member=row.member,
        model_error=ModelErrorRecord.of(row.model_error),
        latency_ns=latency_ns,
        tokens_out=None if row.tokens_out is None else int(row.tokens_out),
        rate_rps=row.rate_rps,
        mean_ttft_ns=row.ttft_ns,
        mean_tpot_ns=row.tpot_ns,
        token_times=token_times,
        software=row.software,
    )


def _token_goals(row: Counted) -> tuple[TokenGoal, ...]:
    goals = []
    if row.ttft_slo_ms is not None and row.ttft_slo_quantile is not None:
        goals.append(TokenGoal("ttft", row.ttft_slo_ms, row.ttft_slo_quantile, row.ttft_met or 0))
    if row.tpot_slo_ms is not None and row.tpot_slo_quantile is not None:
        goals.append(TokenGoal("tpot", row.tpot_slo_ms, row.tpot_slo_quantile, row.tpot_met or 0))
    return tuple(goals)


def _throughput(row: Counted) -> float:
    if row.n == 0 or row.last_done_ns is None or row.first_started_ns is None:
        return 0.0
    begin, end = row.first_started_ns, row.last_done_ns
    if row.window_start_ns is not None and (row.never_done or not row.closed):
        end = max(end, row.window_start_ns + round(row.window_s * 1e9))
    if row.window_start_ns is not None and not row.closed:
        begin = row.window_start_ns
    return row.n / (end - begin) * 1e9 if end > begin else math.nan
