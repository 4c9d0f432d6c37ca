"""What each trial of a run started: whether all tenants came up, what they resolved, and how they ended."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from cotenant.analyse.copies.starts import Start
from cotenant.store.observe import observations
from cotenant.store.reading import OpenRuns

NOT_SERVED = "did not serve: "
"""Beginning of a tenant's error in a trial whose mix never ran."""
_ROWS = """
SELECT trial, block, mix, sharing, solo, failed_checks, reasons, window_s, tenant, error, facts, cpu_time_ns,
    peak_memory_bytes
FROM trials JOIN tenants USING (run, trial) WHERE block >= 0 ORDER BY trial, tenant
"""


def starts(runs: OpenRuns) -> Iterator[Start]:
    """One for each trial of the blocks, in order."""
    cursor = runs.con.execute(_ROWS)
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    served: dict[int, float] = {}
    for seen in observations(runs, raw=False):
        if seen.verdict != "invalid":
            served[seen.trial] = served.get(seen.trial, 0.0) + seen.throughput_rps
    for trial, group in groupby(rows, key=lambda row: row["trial"]):
        yield _start(list(group), served.get(trial))


def _start(rows: list[dict[str, Any]], throughput_rps: float | None) -> Start:
    first = rows[0]
    errors = [str(row["error"]) for row in rows if row["error"]]
    absent = next((error for error in errors if error.startswith(NOT_SERVED)), None)
    checks = list(first["failed_checks"] or ())
    alive = "tenants_alive" not in checks
    facts = [_facts(row["facts"]) for row in rows]
    cpu_ns = [row["cpu_time_ns"] for row in rows]
    memory = [row["peak_memory_bytes"] for row in rows]
    return Start(
        block=int(first["block"]),
        mix=str(first["mix"]),
        sharing=str(first["sharing"]),
        copies=len(rows),
        failed=None if absent is None else absent.removeprefix(NOT_SERVED),
        died=None if alive or absent is not None else next(iter(errors), "a copy ended"),
        failed_checks=tuple(checks),
        reasons=tuple(first["reasons"] or ()),
        throughput_rps=throughput_rps,
        cores=sum(cpu_ns) / 1e9 / first["window_s"] if all(one is not None for one in cpu_ns) else None,
        memory_bytes=sum(memory) if all(one is not None for one in memory) else None,
        resolved=facts[0],
    )


def _facts(text: str | None) -> Mapping[str, int]:
    facts = json.loads(text) if text else {}
    found = {**(facts.get("resolved") or {}), **(facts.get("cache") or {})}
    return {str(key): int(value) for key, value in found.items() if isinstance(value, int | float)}
