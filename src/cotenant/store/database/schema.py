"""The tables of the database, their columns and units."""

from collections.abc import Mapping

from cotenant.tenancy.records import Column

VERSION = 1

TABLES: Mapping[str, tuple[Column, ...]] = {
    "measurements": (
        Column("gpu", "VARCHAR", "the GPU's persistent identity (UUID), or the best name in its source"),
        Column("model", "VARCHAR", "GPU model; NULL: unknown"),
        Column("at_s", "DOUBLE", "start, seconds since 1970"),
        Column("work", "VARCHAR", "what ran: workload, batch, sequence length, number format"),
        Column("conditions", "VARCHAR", "settings, neighbours, GPUs busy at once; empty: alone with default settings"),
        Column("settings", "VARCHAR", "clocks, power limit and other controls, as JSON"),
        Column("time_ms", "DOUBLE", "mean time of a request"),
        Column("requests", "BIGINT", "requests behind it"),
        Column("clock_mhz", "FLOAT", "median clock over the window"),
        Column("temperature_c", "FLOAT", "median temperature over the window"),
        Column("power_w", "FLOAT", "median power over the window"),
        Column("power_limit_w", "FLOAT", "the power limit in effect"),
        Column("energy_j", "DOUBLE", "per request; only where the GPU was not shared"),
        Column("reason", "VARCHAR", "the longest throttling reason, by the driver"),
        Column("cabinet", "VARCHAR", "location of its machine"),
        Column("node", "VARCHAR", "its machine"),
        Column("job", "VARCHAR", "the job it belonged to"),
        Column("simulated", "BOOLEAN", "true if computed by a model, not measured"),
        Column("verdict", "VARCHAR", "`valid` or `unstable`; NULL: unknown"),
        Column("trial", "INTEGER", "number within the run it comes from"),
        Column("source", "VARCHAR", "its source: key in the index"),
    ),
    "readings": (
        Column("gpu", "VARCHAR", "as in `measurements`"),
        Column("sensor", "VARCHAR", "name of the sensor"),
        Column("t_s", "DOUBLE", "time of the reading, seconds since 1970 if known"),
        Column("value", "DOUBLE", "what it read"),
        Column("unit", "VARCHAR", "unit of the value"),
        Column("origin", "VARCHAR", "the tool or driver that reported it"),
        Column("source", "VARCHAR", "its source: key in the index"),
    ),
}
