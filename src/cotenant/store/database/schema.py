"""The tables of the database, their columns and units."""

from collections.abc import Mapping

from cotenant.tenancy.records import Column

VERSION = 1

TABLES: Mapping[str, tuple[Column, ...]] = {
    "measurements": (
        Column("gpu", "VARCHAR", "the GPU's lasting identity (UUID), or the best name that its source has for it"),
        Column("model", "VARCHAR", "what kind of GPU it is; NULL: the source doesn't say"),
        Column("at_s", "DOUBLE", "when it began, seconds since 1970"),
        Column("work", "VARCHAR", "what ran: workload, batch, sequence length, number format"),
        Column("conditions", "VARCHAR", "settings, neighbours, GPUs at work at once; empty: alone and as found"),
        Column("settings", "VARCHAR", "clocks, power limit and other controls, as JSON"),
        Column("time_ms", "DOUBLE", "mean time of a request"),
        Column("requests", "BIGINT", "requests behind it"),
        Column("clock_mhz", "FLOAT", "median clock over the window"),
        Column("temperature_c", "FLOAT", "median temperature over the window"),
        Column("power_w", "FLOAT", "median power over the window"),
        Column("power_limit_w", "FLOAT", "the limit that held"),
        Column("energy_j", "DOUBLE", "per request; only where the GPU was not shared"),
        Column("reason", "VARCHAR", "what held the clock down for longest, by the driver"),
        Column("cabinet", "VARCHAR", "where its machine stands"),
        Column("node", "VARCHAR", "its machine"),
        Column("job", "VARCHAR", "the job it belonged to"),
        Column("simulated", "BOOLEAN", "true if a model computed it and nothing was measured"),
        Column("verdict", "VARCHAR", "`valid` or `unstable`; NULL: the source gives none"),
        Column("trial", "INTEGER", "number within the run it comes from"),
        Column("source", "VARCHAR", "where it comes from: key in the index"),
    ),
    "readings": (
        Column("gpu", "VARCHAR", "as in `measurements`"),
        Column("sensor", "VARCHAR", "name of the sensor"),
        Column("t_s", "DOUBLE", "when it was read, seconds since 1970 where the source knows"),
        Column("value", "DOUBLE", "what it read"),
        Column("unit", "VARCHAR", "unit of the value"),
        Column("origin", "VARCHAR", "the tool or driver that gave it"),
        Column("source", "VARCHAR", "where it comes from: key in the index"),
    ),
}
