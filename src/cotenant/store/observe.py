"""From records to what analysis sees: one observation per tenant and trial.

Definitions, the same for runs on disk (a query here) and for a trial in memory (`counting`):

* *due*: the request's `in_window` is true. Whoever measures sets it for requests that were due in the window and
  either done while every tenant was active, or failed, or never done.
* *served*: due, `ok`, and done. ``n`` counts these; ``unfinished`` counts what was due and not served.
* *latency*: done - intended of a served request. ``mean_latency_ns`` is NaN without one.
* *throughput*: ``n`` over the time it took. Closed loads: from the first start to the last end of the due requests,
  or to the end of the window if one of them never ended, since a tenant that hangs has not become faster. Open
  loads: from the start of the window to its end, or to the last end if that is later. 0 if nothing was served.
* *device time*: mean of ``device_ns`` over the served requests that have one.
* *within the objective*: served with a latency of at most ``slo_ms``.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cotenant.store.counting import Counted, count_trial
from cotenant.store.portions import of_trials, portions
from cotenant.store.reading import OpenRuns
from cotenant.tenancy.records import CANARY, Int64s, ModelError, TenantObservation, TrialRecords

_SERVED = "coalesce(ok, false) AND done_ns IS NOT NULL"

_OBSERVE = f"""
counted AS (
    SELECT run, trial, tenant,
        count(*) FILTER ({_SERVED}) AS n,
        count(*) AS due,
        sum(done_ns - intended_ns) FILTER ({_SERVED}) AS latency_ns,
        sum(device_ns) FILTER ({_SERVED}) AS device_ns,
        count(device_ns) FILTER ({_SERVED}) AS device_n,
        count(*) FILTER ({_SERVED} AND done_ns - intended_ns <= slo_ms * 1e6) AS slo_met,
        min(started_ns) AS first_started_ns,
        max(done_ns) AS last_done_ns,
        count(*) FILTER (done_ns IS NULL) AS never_done
    FROM requests JOIN (SELECT run, trial, tenant, slo_ms FROM tenants) USING (run, trial, tenant)
    WHERE in_window
    GROUP BY run, trial, tenant
),
canaries AS (
    SELECT run, trial, source AS tenant, avg(value) AS canary_us FROM samples WHERE sensor = '{CANARY}' GROUP BY ALL
)
SELECT run, trial, block, mix, sharing, settings, trials.load, device, coalesce(simulated, false),
    coalesce(solo, false), tenant, coalesce("of", tenant), verdict, failed_checks, window_start_ns, window_s,
    slo_ms, slo_quantile, member, starts_with(coalesce(tenants.load, trials.load), 'closed'),
    coalesce(n, 0), coalesce(due, 0), latency_ns, device_ns, device_n, slo_met,
    first_started_ns, last_done_ns, never_done, canary_us, model_error
FROM tenants JOIN trials USING (run, trial) LEFT JOIN counted USING (run, trial, tenant)
    LEFT JOIN canaries USING (run, trial, tenant)
ORDER BY device, mix, sharing, settings, trials.load, coalesce("of", tenant), tenant, run, block, trial
"""  # noqa: S608  (made of constants)

_LATENCIES = f"""
SELECT place, done_ns - intended_ns AS latency_ns
FROM ({{source}}) JOIN (
    SELECT unnest($run) AS run, unnest($trial) AS trial, unnest($tenant) AS tenant, unnest($place) AS place
) USING (run, trial, tenant)
WHERE in_window AND {_SERVED} AND intended_ns IS NOT NULL
ORDER BY place, file_row_number
"""  # noqa: S608  (made of constants, and of a source whose names are quoted where it is made)


def observations(runs: OpenRuns, *, raw: bool) -> Iterator[TenantObservation]:
    """Every tenant of every trial of the runs, those that only calibrated loads (`block` < 0) included.

    All trials of one cell (device, mix, sharing, settings, load, tenant) come one after another. With ``raw`` each
    observation carries its latencies, read a portion at a time: no more than that is ever held.
    """
    rows = [Counted._make(row) for row in runs.con.execute("WITH" + _OBSERVE).fetchall()]
    if not raw:
        yield from (_observation(row, None) for row in rows)
        return
    for portion in portions(rows, (row.n for row in rows)):
        yield from map(_observation, portion, _latencies(runs, portion))


def observe_trial(records: TrialRecords, run: str, *, raw: bool = False) -> tuple[TenantObservation, ...]:
    """The same for a trial that is still in memory, in the order of its tenants' names."""
    return tuple(_observation(row, latency if raw else None) for row, latency in count_trial(records, run))


def _latencies(runs: OpenRuns, rows: Sequence[Counted]) -> list[Int64s]:
    """Of each of the rows, in the order in which its requests were recorded."""
    served = [(place, row) for place, row in enumerate(rows) if row.n]
    if not served:
        return [np.empty(0, np.int64) for _ in rows]
    found = runs.con.execute(
        _LATENCIES.format(source=of_trials(runs.files, "requests", ((row.run, row.trial) for _, row in served))),
        {
            "run": [row.run for _, row in served],
            "trial": [row.trial for _, row in served],
            "tenant": [row.tenant for _, row in served],
            "place": [place for place, _ in served],
        },
    ).fetchnumpy()
    latency = np.ma.getdata(found["latency_ns"]).astype(np.int64, copy=False)
    return np.split(latency, np.searchsorted(np.ma.getdata(found["place"]), np.arange(1, len(rows))))


def _observation(row: Counted, latency_ns: Int64s | None) -> TenantObservation:
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
        canary_us=row.canary_us,
        member=row.member,
        model_error=ModelError.of(row.model_error),
        latency_ns=latency_ns,
    )


def _throughput(row: Counted) -> float:
    if row.n == 0 or row.last_done_ns is None or row.first_started_ns is None:
        return 0.0
    begin, end = row.first_started_ns, row.last_done_ns
    if row.window_start_ns is not None and (row.never_done or not row.closed):
        end = max(end, row.window_start_ns + round(row.window_s * 1e9))
    if row.window_start_ns is not None and not row.closed:
        begin = row.window_start_ns
    return row.n / (end - begin) * 1e9 if end > begin else math.nan
