"""The records of a run: its tables, their columns and units, and their in-memory form.

Each trial yields a `TrialRecords`; the store writes it; analysis reads `TenantObservation`s. Nothing else
crosses from measuring to analysis.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

SCHEMA_VERSION = 1

Verdict = Literal["valid", "unstable", "invalid"]
Int64s = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]

APART = "apart"
"""The sharing of trials on several members of a group: a tenant on each, so no device is shared."""
OWN = "own"
"""The load of a trial whose tenants have different loads."""
SERVED = "served"
"""The load of a trial in which a server answered whatever its clients sent, and the name of such a run."""
MISSING_NS = -1
""""Did not happen" in the nanosecond columns of the shared memory; stored as NULL."""


STOPPED_BLOCK, WHOLE_BLOCK = -2, -3
"""Blocks of the solo trials around a run of servers: the others stopped; and with all of the device's memory."""
TOKEN_STAGES = ("token", "decode")
"""Stages that end with a token after the first: of a server's answer, and of a model that generates."""
JUDGED_ALONE_S = 1.0
"""Windows of at least this length are judged individually; shorter windows of a cell together."""
REQUESTS_MIN = 10
"""Fewest requests of each tenant in a window that is judged by itself."""
CANARY = "canary_us"
"""The sensor for each tenant's plain loop, with the tenant as its source: a value per window."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    """A DuckDB type."""
    meaning: str
    later: bool = False
    """Added later: NULL in runs that lack it."""


MANIFEST: Mapping[str, str] = {
    "schema_version": "version of these tables and of this list",
    "run": "the run's name",
    "study_name": "name of the study",
    "study_file": "file or built-in study that was given; null if it was none",
    "study": "the study as YAML, with overrides applied: enough to resume the run",
    "seed": "the study's seed",
    "too_small_for": "tenants that were left out because they don't fit on the device, a sentence each",
    "modes": "ways to share that `sharing: all` stands for on this device",
    "left_out": "why some mixes are not measured under some of them, a sentence each",
    "device": "name of the device or group",
    "fleet": "of a run on Ray: the cluster, each device with its node and versions, and the role of the devices",
    "simulated": "true: a model computed the records",
    "device_description": "facts of the device: model, memory, limits, clocks, versions",
    "sensors": "each sensor's name, unit, source, update period and accuracy",
    "roofline": "peak rates of the device, measured when the run was made: `flops_per_s` by dtype, `bytes_per_s`, "
    "`cores` (or SMs) in use, `measured_utc` (or `data sheet`), `undisturbed`; null: they could not be measured",
    "sessions": "an entry for each start or resume: time, command line, machine, versions, git state, environment",
    "instrument": "overhead of the harness itself, measured with a tenant that does nothing",
    "capacity_rps": "requests per second that each tenant serves alone, where a load is a share of that",
    "windows": "lengths of windows and leads, and the time of each tenant's request during warm-up",
    "precise": "cells that were precise enough, or far more precise than others, and the block from which they are "
    "visited less often",
    "switching": "how long after a switch tenants had settled, and carry-over; on a cluster for each device",
    "reached": "blocks, seconds and half-widths of slowdowns at the end: the forecast for the next run of the study",
    "simulation": "error of simulated numbers, by class",
    "profile_pass": "the profiler of a profile pass, and its notes; no slowdown is computed from such a run",
    "watched": "of a watched run: each tenant's software, process, container and granted parts; what happened to the "
    "readings, and what can't be seen",
    "sealed": "true: every trial folder has a seal with the sizes and checksums of its files",
    "trials": "number of trials of the complete run, so that a missing trial is noticed",
    "gaps": "of served traffic: requests that could not be written, from when to when and why",
    "sha256": "checksum of the manifest itself, without this entry",
    "state": "running, complete, interrupted or failed",
    "why": "why the run ended",
}
"""Entries of a run's manifest.json."""

TABLES: Mapping[str, tuple[Column, ...]] = {
    "trials": (
        Column("run", "VARCHAR", "the run's identity, unique over machines"),
        Column("trial", "INTEGER", "number within the run; the same study and seed give the same numbers"),
        Column("block", "INTEGER", "trials of a block are compared with each other; -1: calibration"),
        Column("order", "INTEGER", "position in the order of the block's trials"),
        Column("session", "INTEGER", "0 for the first start of the run, counted up by each resume"),
        Column("mix", "VARCHAR", "the tenants that were active at the same time"),
        Column("solo", "BOOLEAN", "a tenant, alone on the whole device; of a group, on its member"),
        Column("device", "VARCHAR", "where"),
        Column("simulated", "BOOLEAN", "true if a model computed it and nothing was measured"),
        Column("sharing", "VARCHAR", "how the device was shared; `alone` for solo trials"),
        Column("settings", "VARCHAR", "clocks, power limit and other controls, as JSON"),
        Column("load", "VARCHAR", "when requests arrived; `mixed` if tenants differ"),
        Column("seed", "BIGINT", "seed of schedules and inputs"),
        Column("started_utc", "VARCHAR", "wall-clock start, ISO 8601"),
        Column("start_ns", "BIGINT", "common start, on the machine's monotonic clock"),
        Column("window_start_ns", "BIGINT", "start of the counted window, same clock"),
        Column("window_s", "DOUBLE", "length of the counted window, seconds"),
        Column(
            "foreign_share",
            "DOUBLE",
            "share of the device's time that processes outside the study used meanwhile; NULL where unknown",
            later=True,
        ),
        Column("verdict", "VARCHAR", "`valid`, `unstable` or `invalid`"),
        Column("failed_checks", "VARCHAR[]", "names of the checks that failed"),
        Column("reasons", "VARCHAR[]", "a sentence for each failed check"),
    ),
    "tenants": (
        Column("trial", "INTEGER", "the trial"),
        Column("tenant", "VARCHAR", "name within the mix, e.g. `bert-mini#2`"),
        Column("of", "VARCHAR", "the study's tenant it is a copy of; its solo trial carries this name"),
        Column("workload", "VARCHAR", "what ran"),
        Column("batch", "INTEGER", "items per request"),
        Column("seq", "INTEGER", "tokens per item, where there are tokens"),
        Column("dtype", "VARCHAR", "number format of weights and activations"),
        Column(
            "software",
            "VARCHAR",
            "execution mode: eager, compile, graphs, onnxruntime, tensorrt or vllm",
            later=True,
        ),
        Column("load", "VARCHAR", "when its requests arrived"),
        Column("rate_rps", "DOUBLE", "intended rate of an open load, requests per second"),
        Column("slo_ms", "DOUBLE", "latency objective, milliseconds"),
        Column("slo_quantile", "DOUBLE", "the quantile that must meet it"),
        Column("ttft_slo_ms", "DOUBLE", "objective of the time to the first token, milliseconds", later=True),
        Column("ttft_slo_quantile", "DOUBLE", "the quantile that must meet it", later=True),
        Column("tpot_slo_ms", "DOUBLE", "objective of the time per output token, milliseconds", later=True),
        Column("tpot_slo_quantile", "DOUBLE", "the quantile that must meet it", later=True),
        Column("priority", "INTEGER", "higher goes first where the sharing supports priorities"),
        Column("share", "VARCHAR", "share of the device it was given, where the sharing splits it"),
        Column("member", "VARCHAR", "the group member it ran on, by its lasting identity (UUID)"),
        Column("threads", "INTEGER", "CPU threads per operator"),
        Column("params", "BIGINT", "parameters of the model"),
        Column("flops_per_request", "DOUBLE", "floating point operations, from a dry run of the model"),
        Column("bytes_per_request", "DOUBLE", "bytes read and written, from the same dry run"),
        Column("weights", "VARCHAR", "`random(seed)`, a directory, or `none`"),
        Column("facts", "VARCHAR", "other properties stated by the workload, as JSON"),
        Column("pid", "INTEGER", "its process"),
        Column("observed", "VARCHAR", "what its process saw of its environment (affinity, threads, ...), as JSON"),
        Column("warmup", "VARCHAR", "`flat`, `warm-up`, `slowdown` or `no steady state`; NULL for short windows"),
        Column("cpu_time_ns", "BIGINT", "CPU time of its process over the window"),
        Column("switches_voluntary", "BIGINT", "voluntary context switches over the window"),
        Column("switches_forced", "BIGINT", "involuntary context switches over the window"),
        Column("peak_memory_bytes", "BIGINT", "peak memory of its process on the device"),
        Column(
            "model_error",
            "VARCHAR",
            "of a simulated tenant: its class, and the error of that class, as JSON",
            later=True,
        ),
        Column("error", "VARCHAR", "the first error of a request, or how the tenant died"),
    ),
    "requests": (
        Column("trial", "INTEGER", "the trial"),
        Column("tenant", "VARCHAR", "the tenant"),
        Column("seq", "BIGINT", "number of the request within the trial"),
        Column("intended_ns", "BIGINT", "when it should have started, by the load's schedule"),
        Column("started_ns", "BIGINT", "when serving began"),
        Column("first_ns", "BIGINT", "when the first output existed; NULL without output"),
        Column("done_ns", "BIGINT", "when it was done; NULL if never"),
        Column("device_ns", "BIGINT", "time the device worked on it; on a CPU the process's CPU time"),
        Column(
            "tokens_in",
            "BIGINT",
            "tokens of the prompt; NULL where there are none or they were not counted",
            later=True,
        ),
        Column("tokens_out", "BIGINT", "tokens of the answer; NULL where there are none", later=True),
        Column(
            "tokens_reasoning", "BIGINT", "of `tokens_out`, those that were reasoning; NULL without any", later=True
        ),
        Column("in_window", "BOOLEAN", "due in the window and done while every tenant was active"),
        Column("ok", "BOOLEAN", "served without an error"),
        Column(
            "error", "VARCHAR", "the kind of error it ended with: `http 503`, `timeout`, `bad stream`, `hung up`, ..."
        ),
    ),
    "stages": (
        Column("trial", "INTEGER", "the trial"),
        Column("tenant", "VARCHAR", "the tenant"),
        Column("seq", "BIGINT", "number of the request within the trial"),
        Column("stage", "VARCHAR", "name of the stage"),
        Column("start_ns", "BIGINT", "when the stage began"),
        Column("duration_ns", "BIGINT", "how long it took"),
    ),
    "samples": (
        Column("trial", "INTEGER", "the trial"),
        Column("device", "VARCHAR", "the device"),
        Column("t_ns", "BIGINT", "when the value was read, on the requests' clock"),
        Column("sensor", "VARCHAR", "name of the sensor"),
        Column("value", "DOUBLE", "what it read"),
        Column("unit", "VARCHAR", "unit of the value"),
        Column("source", "VARCHAR", "where the value comes from"),
    ),
    "kernels": (
        Column("trial", "INTEGER", "the trial"),
        Column("tenant", "VARCHAR", "the tenant"),
        Column("name", "VARCHAR", "name of the kernel; on a CPU of the operator"),
        Column("device", "VARCHAR", "the device it ran on, as the profiler names it"),
        Column("stream", "BIGINT", "the device's stream it ran on; on a CPU the thread"),
        Column("start_ns", "BIGINT", "when it began"),
        Column("duration_ns", "BIGINT", "how long it took"),
    ),
}
"""Every table; `kernels` is filled by profile passes only."""


@dataclass(frozen=True, slots=True)
class TrialRecords:
    """The output of a trial: rows as dictionaries, bulk data as columns. Missing columns are NULL."""

    trial: Mapping[str, Any]
    tenants: tuple[Mapping[str, Any], ...]
    requests: Columns
    stages: Columns = field(default_factory=dict)
    samples: Columns = field(default_factory=dict)
    kernels: Columns = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenGoal:
    """An objective of generation, and the number of requests that met it."""

    metric: Literal["ttft", "tpot"]
    limit_ms: float
    quantile: float
    met: int


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Of the served requests whose number of tokens is known."""

    ttft_ns: Int64s
    """First token - intended."""
    tpot_ns: Int64s
    """(Done - first) / (tokens - 1), of those with several tokens."""
    itl_ns: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Between consecutive tokens, of all tokens after the first."""


@dataclass(frozen=True, slots=True)
class ModelErrorRecord:
    """Error of the simulation for a tenant: nine in ten measured values lay between these multiples of it."""

    kind: str
    """Class of the tenant, as text."""
    validated: bool
    sentence: str
    """Mean error of the class, or that it is unknown."""
    time: tuple[float, float]
    slowdown: tuple[float, float]
    tail: tuple[float, float]
    shared: tuple[float, float] | None = None
    """Of a mean time beside others where it was compared itself; None: from the time alone and the slowdown."""
    shared_tail: tuple[float, float] | None = None

    @classmethod
    def of(cls, text: str | None) -> "ModelErrorRecord | None":
        """Parse the records' column; None if measured, or recorded before the column existed."""
        if not text:
            return None
        fields = json.loads(text)
        names = ("time", "slowdown", "tail", "shared", "shared_tail")
        ends = {name: (float(fields[name][0]), float(fields[name][1])) for name in names if name in fields}
        return cls(str(fields["class"]), bool(fields["validated"]), str(fields["error"]), **ends)


@dataclass(frozen=True, slots=True)
class TenantInTrial:
    """Which tenant of which trial, and under which circumstances."""

    run: str
    trial: int
    block: int
    mix: str
    sharing: str
    settings: str
    load: str
    """The trial's load: cells are compared at equal load."""
    device: str
    simulated: bool
    solo: bool
    tenant: str
    of: str


@dataclass(frozen=True, slots=True)
class TenantObservation(TenantInTrial):
    """A tenant in a trial, as seen by the analysis.

    ``latency_ns`` is done - intended of the requests in the window that were served without an error; it is ``None``
    where only means are needed (they are cheap, the raw values of a long run are not).
    """

    verdict: Verdict
    failed_checks: tuple[str, ...]
    n: int
    """Requests in the window, served."""
    unfinished: int
    """Requests due in the window that never completed or failed: they count as infinitely late."""
    throughput_rps: float
    mean_latency_ns: float
    window_s: float
    mean_device_ns: float | None = None
    slo_ms: float | None = None
    slo_quantile: float | None = None
    slo_met: int | None = None
    """Requests within the latency objective, of ``n + unfinished``."""
    token_goals: tuple[TokenGoal, ...] = ()
    """Objectives of the time to the first token and per output token."""
    all_met: int | None = None
    """Requests within every objective at once; None if it has no token objective, see ``slo_met``."""
    canary_us: float | None = None
    """Time of a plain loop run beside its requests: the speed of its core."""
    foreign_share: float | None = None
    """Share of the device's time that processes outside the study used meanwhile."""
    member: str | None = None
    """The group member it ran on."""
    model_error: ModelErrorRecord | None = None
    """Of a simulated tenant."""
    latency_ns: Int64s | None = None
    tokens_out: int | None = None
    """Tokens of the served requests; None if not counted."""
    rate_rps: float | None = None
    """Intended rate of an open load."""
    mean_ttft_ns: float | None = None
    """Of the served requests whose tokens were counted."""
    mean_tpot_ns: float | None = None
    """Of those with several tokens."""
    token_times: TokenTimes | None = None
    """Only with raw values, for tenants that generate."""
    software: str | None = None
    """What executed the model, `eager` where the study names none; None for servers, kernels and workloads of yours."""

    @property
    def role(self) -> str:
        """Its name within the mix, the same on every member of a group: `bert#2` of `bert#2@17`."""
        return self.tenant if self.member is None else self.tenant.rpartition("@")[0] or self.tenant
