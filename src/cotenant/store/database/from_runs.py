"""Convert a run to rows of the database: a row per kind of work, member and trial."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cotenant import plain_yaml
from cotenant.store import parquet
from cotenant.store.database.staging import LASTING, TABLES, StagedSource, Staging
from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs

CLOCKS: tuple[str, ...] = ("sm_clock_mhz", "frequency_mhz")
KEPT = (*CLOCKS, "temperature_c", "power_w", "power_limit_w", "energy_j", "package_energy_j", "any_kernel_share")
"""Device sensors kept by the database, besides all throttling reasons."""
REASONS = {
    "power_cap": "power cap",
    "sw_power": "power cap",
    "power_brake": "power brake",
    "hw_power": "power brake",
    "therm": "heat",
    "heat": "heat",
    "clock": "clock setting",
}
"""Parts of names of throttling counters and their reasons; the first match counts."""

BITS = {0x2: "clock setting", 0x4: "power cap", 0x60: "heat", 0x80: "power brake"}
"""The same for the driver's event reason bits, if there are no counters."""

_CALM = "verdict <> 'invalid' AND block >= 0"
_ROWS = """
WITH counted AS (
    SELECT run, trial, tenant, count(*) AS n, avg(done_ns - started_ns) / 1e6 AS time_ms
    FROM requests WHERE in_window AND coalesce(ok, false) AND done_ns IS NOT NULL GROUP BY ALL
), held AS (
    SELECT *, {gpu} AS gpu, coalesce(member, trials.device) AS device_
    FROM tenants JOIN trials USING (run, trial) WHERE {calm}
), placed AS (
    SELECT *, count(*) OVER (PARTITION BY run, trial, gpu) AS together
    FROM held JOIN (SELECT run, trial, count(DISTINCT gpu) AS at_once FROM held GROUP BY ALL) USING (run, trial)
), sensed AS (
    SELECT run, trial, samples.device AS device_,
        median(value) FILTER (sensor IN ({clocks})) AS clock_mhz,
        median(value) FILTER (sensor = 'temperature_c') AS temperature_c,
        median(value) FILTER (sensor = 'power_w') AS power_w,
        median(value) FILTER (sensor = 'power_limit_w') AS power_limit_w,
        coalesce(
            max(value) FILTER (sensor IN ('energy_j', 'package_energy_j'))
                - min(value) FILTER (sensor IN ('energy_j', 'package_energy_j')),
            avg(value) FILTER (sensor = 'power_w') * any_value(window_s)) AS joules
    FROM samples JOIN trials USING (run, trial)
    WHERE isfinite(value) AND t_ns BETWEEN window_start_ns AND window_start_ns + window_s * 1e9
    GROUP BY ALL
), throttled AS (
    SELECT run, trial, device_, arg_max(reason, lasted) AS reason
    FROM (
        SELECT run, trial, samples.device AS device_, {reason} AS reason, max(value) - min(value) AS lasted,
            any_value(window_s) AS window_s
        FROM samples JOIN trials USING (run, trial)
        WHERE contains(sensor, 'throttl') AND unit = 's' AND isfinite(value)
        GROUP BY run, trial, samples.device, sensor
        UNION ALL
        SELECT run, trial, samples.device, bits.reason,
            avg((value::BIGINT & bits.mask > 0)::INTEGER) * any_value(window_s), any_value(window_s)
        FROM samples JOIN trials USING (run, trial), (VALUES {bits}) AS bits(mask, reason)
        WHERE sensor = 'event_reasons' AND isfinite(value)
            AND t_ns BETWEEN window_start_ns AND window_start_ns + window_s * 1e9
        GROUP BY run, trial, samples.device, bits.reason
    ) WHERE lasted > 0.05 * window_s GROUP BY ALL
)
SELECT gpu, any_value(model) AS model, any_value(at_s) AS at_s, work, conditions, any_value(settings) AS settings,
    avg(time_ms) AS time_ms, sum(n) AS requests, any_value(clock_mhz) AS clock_mhz,
    any_value(temperature_c) AS temperature_c, any_value(power_w) AS power_w, any_value(power_limit_w) AS power_limit_w,
    CASE WHEN any_value(together) = count(*) THEN any_value(joules) / sum(n) END AS energy_j,
    any_value(reason) AS reason, NULL AS cabinet, {node} AS node, {run} || ' trial ' || trial AS job,
    any_value(simulated) AS simulated, any_value(verdict) AS verdict, trial, {source} AS source
FROM (
    SELECT gpu, {model} AS model, epoch(try_cast(started_utc AS TIMESTAMPTZ)) AS at_s, trial, n, time_ms, together,
        concat_ws(', ', workload, {details}, 'batch ' || batch, seq || ' tokens', dtype) AS work,
        concat_ws('; ',
            nullif(replace(replace(trim(coalesce(settings, ''), '{{}}'), '"', ''), ': ', ' '), ''),
            'beside ' || (
                SELECT string_agg(other."of", ', ' ORDER BY other."of") FROM held AS other
                WHERE other.run = placed.run AND other.trial = placed.trial AND other.gpu = placed.gpu
                    AND other.tenant <> placed.tenant) || ' by ' || sharing,
            CASE WHEN at_once > 1 THEN at_once || ' at once' END) AS conditions,
        settings, clock_mhz, temperature_c, power_w, power_limit_w, joules, reason,
        coalesce(simulated, false) AS simulated, verdict
    FROM placed JOIN counted USING (run, trial, tenant) LEFT JOIN sensed USING (run, trial, device_)
        LEFT JOIN throttled USING (run, trial, device_)
)
GROUP BY gpu, trial, work, conditions
"""
"""Concurrent copies of a tenant on a member are a single measurement: they are not independent."""
_READINGS = """
WITH placed AS (
    SELECT run, trial, {begins} AS begins_s FROM (
        SELECT run, trial, epoch(try_cast(started_utc AS TIMESTAMPTZ)) AS at_s, max(t_ns - start_ns) / 1e9 AS length_s
        FROM trials JOIN samples USING (run, trial) GROUP BY ALL
    )
)
SELECT {read} AS gpu, sensor, begins_s + (t_ns - start_ns) / 1e9 AS t_s, value, unit, source AS origin,
    {source} AS source
FROM samples JOIN trials USING (run, trial) JOIN placed USING (run, trial)
WHERE {calm} AND isfinite(value) AND (sensor IN ({kept}) OR contains(sensor, 'throttl') OR contains(sensor, 'reason'))
"""
_ONE_AFTER_ANOTHER = """min(at_s) OVER () + coalesce(
    sum(length_s + 60) OVER (ORDER BY trial ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)"""
"""Simulated trials take less time than they cover: placed at their start times, they would overlap."""


def identity(run: Path) -> tuple[str, str]:
    """The run's key, and a version that changes when it continues. Raises RunFolderError if it isn't a run."""
    folder = RunFolder.open(run)
    return folder.run, f"{len(folder.committed())}"


def stage(run: Path, staging: Staging) -> StagedSource:
    """Reduce a run's records and stage them. Raises RunFolderError if it can't be read."""
    with open_runs([run]) as opened:
        (folder,), con = opened.folders.values(), opened.con
        given = _given(folder, staging)
        staging.select("measurements", con, _typed("measurements", _ROWS.format(**given), "gpu, at_s"))
        staging.select("readings", con, _typed("readings", _READINGS.format(**given), "gpu, sensor, t_s"))
        (left_out,) = con.execute("SELECT count(*) FROM trials WHERE verdict = 'invalid'").fetchone() or (0,)
    notes = (f"left out: {left_out:,} invalid {'trial' if left_out == 1 else 'trials'}",) if left_out else ()
    return staging.done(kind="run", left_out=notes)


def _given(folder: RunFolder, staging: Staging) -> dict[str, str]:
    """Values from the manifest for the queries, as SQL."""
    machine = _machine(folder.manifest)
    return {
        "gpu": _lasting("member", "member IS NULL", folder.manifest),
        "read": _lasting("samples.device", "samples.device = trials.device", folder.manifest),
        "model": _model(folder.manifest),
        "details": _details(folder.manifest),
        "begins": _ONE_AFTER_ANOTHER if folder.manifest.get("simulated") else "at_s",
        "node": parquet.text(machine) if machine else "NULL",
        "source": parquet.text(staging.source),
        "run": parquet.text(folder.run),
        "calm": _CALM,
        "clocks": ", ".join(map(parquet.text, CLOCKS)),
        "kept": ", ".join(map(parquet.text, KEPT)),
        "bits": ", ".join(f"({mask}, {parquet.text(reason)})" for mask, reason in BITS.items()),
        "reason": "CASE "
        + " ".join(f"WHEN contains(sensor, '{part}') THEN '{word}'" for part, word in REASONS.items())
        + " END",
    }


def _typed(table: str, query: str, order: str) -> str:
    columns = ", ".join(f"CAST({column.name} AS {column.type}) AS {column.name}" for column in TABLES[table])
    return f"SELECT {columns} FROM ({query}) ORDER BY {order}"  # noqa: S608 - our own names and quoted values


def _lasting(name: str, whole: str, manifest: Mapping[str, Any]) -> str:
    """SQL of a persistent identity: a UUID is unique, a simulation has no machine, `cpu:0` differs on every machine.

    ``name`` is SQL of the run's name for it, ``whole`` is true if that is the run's device rather than a member.
    """
    machine = _machine(manifest)
    if manifest.get("simulated") or not machine:
        member = name
    else:
        uuid = " OR ".join(f"{name} LIKE '{start}%'" for start in LASTING)
        member = f"CASE WHEN {uuid} THEN {name} ELSE {parquet.text(f'{machine} ')} || {name} END"
    described = manifest.get("device_description")
    found = described.get("uuid") if isinstance(described, Mapping) else None
    device = found if isinstance(found, str) and found else str(manifest.get("device") or "unknown device")
    if device != found and not manifest.get("simulated") and machine:
        device = f"{machine} {device}"
    return f"CASE WHEN {whole} THEN {parquet.text(device)} ELSE {member} END"


def _model(manifest: Mapping[str, Any]) -> str:
    """SQL of the GPU model, over `device_`."""
    described = manifest.get("device_description")
    if not isinstance(described, Mapping):
        return "NULL"
    members = [member for member in described.get("members") or () if isinstance(member, Mapping)]
    of_member = {str(member.get("identity")): _kind({**described, **member}) for member in members}
    if len(set(of_member.values())) <= 1:
        known = next(iter(of_member.values()), _kind(described))
        return "NULL" if known is None else parquet.text(known)
    cases = (f"WHEN {parquet.text(name)} THEN {parquet.text(kind)}" for name, kind in of_member.items() if kind)
    return f"CASE device_ {' '.join(cases)} END"


def _details(manifest: Mapping[str, Any]) -> str:
    """SQL of further details of a tenant's work, over `of`: a product of 8,192 differs from a product of 16,896."""
    try:
        study = plain_yaml.load(str(manifest.get("study") or ""))
        tenants = {str(name): dict(entry) for name, entry in study["tenants"].items()}
    except (AttributeError, TypeError, ValueError, KeyError):
        return "NULL"
    notes = {name: ", ".join(_described(entry)) for name, entry in tenants.items()}
    cases = [f"WHEN {parquet.text(name)} THEN {parquet.text(said)}" for name, said in notes.items() if said]
    return f"""CASE "of" {" ".join(cases)} END""" if cases else "NULL"


def _described(tenant: Mapping[str, Any]) -> Iterator[str]:
    """`train`, `last 50%`, `size 8192`."""
    if tenant.get("train"):
        yield "train"
    if tenant.get("layers", "full") != "full":
        yield str(tenant["layers"])
    if tenant.get("mode"):
        yield str(tenant["mode"])
    if tenant.get("tokens"):
        yield f"makes {tenant['tokens']}"
    for key, value in (tenant.get("params") or {}).items():
        yield f"{key} {value}"


def _kind(described: Mapping[str, Any]) -> str | None:
    return next((str(described[key]) for key in ("model", "title", "name") if described.get(key)), None)


def _machine(manifest: Mapping[str, Any]) -> str:
    """The machine's name, if the manifest has it."""
    for session in manifest.get("sessions") or ():
        if isinstance(session, Mapping) and isinstance(session.get("host"), str):
            return str(session["host"])
    return ""
