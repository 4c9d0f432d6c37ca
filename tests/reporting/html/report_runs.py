"""Runs with known numbers: two tenants, alone and as a pair, in blocks, with stages and sensors."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
ALONE_MS = 2.0
SHARED = {"processes": 1.5, "threads": 3.0}
"""Slowdown of both tenants by sharing."""
HOSTILE = '<img src=x onerror="window.hacked=1">\'</script><script>window.hacked=1</script>\u2028&amp;'


def write_run(
    path: Path,
    *,
    tenants: Sequence[str] = ("encoder", "decoder"),
    blocks: int = 3,
    requests: int = 60,
    loads: Mapping[str, tuple[float | None, float]] | None = None,
    sharings: Sequence[str] = tuple(SHARED),
    verdict: str = "valid",
    failed: Sequence[str] = (),
    reasons: Sequence[str] = (),
    manifest: Mapping[str, Any] | None = None,
    simulated: bool = False,
    mixes: Sequence[Sequence[str]] | None = None,
    slo_ms: float | None = None,
    tokens: int | None = None,
) -> Path:
    """A run folder. ``loads``: label -> (rate in requests per second or None, factor on every latency).

    ``mixes``: which tenants share, instead of all of them; ``slo_ms``: the limit for 90 % of every tenant's requests;
    ``tokens``: length of every answer, as a server of language models counts it.
    """
    folder = RunFolder.create(
        path, {"study_name": "pairs", "device": "cpu", "seed": 1, "simulated": simulated, **(manifest or {})}
    )
    number = 0
    rng = np.random.default_rng(1)
    for block in range(blocks):
        for load, (rate, factor) in (loads or {"closed(1)": (None, 1.0)}).items():
            layouts = [((name,), "alone", 1.0) for name in tenants]
            layouts += [
                (tuple(mix), sharing, SHARED.get(sharing, 2.0)) for mix in mixes or [tenants] for sharing in sharings
            ]
            for members, sharing, slowdown in layouts:
                begin = (number + 1) * 2_000_000_000
                facts = {
                    "trial": number,
                    "block": block,
                    "order": number,
                    "session": 0,
                    "mix": "+".join(members),
                    "solo": sharing == "alone",
                    "device": (manifest or {}).get("device", "cpu"),
                    "simulated": simulated,
                    "sharing": sharing,
                    "settings": "{}",
                    "load": load,
                    "seed": number,
                    "started_utc": (BEGAN + timedelta(seconds=2 * number)).isoformat(),
                    "start_ns": begin,
                    "window_start_ns": begin,
                    "window_s": 1.0,
                    "verdict": verdict,
                    "failed_checks": list(failed),
                    "reasons": list(reasons),
                }
                folder.commit(
                    _trial(
                        rng,
                        facts,
                        members=members,
                        rate=rate,
                        latency_ms=ALONE_MS * slowdown * factor,
                        requests=requests,
                        slo_ms=slo_ms,
                        tokens=tokens,
                    )
                )
                number += 1
    return path


def _trial(
    rng: np.random.Generator,
    facts: Mapping[str, Any],
    *,
    members: tuple[str, ...],
    rate: float | None,
    latency_ms: float,
    requests: int,
    slo_ms: float | None,
    tokens: int | None,
) -> TrialRecords:
    begin = facts["window_start_ns"]
    codes = np.repeat(np.arange(len(members)), requests)
    seq = np.tile(np.arange(requests), len(members))
    started = begin + (seq * 1e9 / max(1, requests)).astype(np.int64)
    latency = (latency_ms * 1e6 * rng.gamma(100, 0.01, codes.size)).astype(np.int64)
    moments = begin + np.arange(0, 10, dtype=np.int64) * 100_000_000
    return TrialRecords(
        trial=facts,
        tenants=tuple(
            {
                "tenant": name,
                "of": name,
                "workload": name,
                "batch": 1,
                "dtype": "float32",
                "load": facts["load"],
                "rate_rps": rate,
                "flops_per_request": 4e8,
                "bytes_per_request": 2e7,
                **({} if slo_ms is None else {"slo_ms": slo_ms, "slo_quantile": 0.9}),
            }
            for name in members
        ),
        requests={
            "tenant": codes,
            "seq": seq,
            "intended_ns": started,
            "started_ns": started,
            "first_ns": np.full(codes.size, -1) if tokens is None else started + latency // 4,
            "done_ns": started + latency,
            "device_ns": latency,
            "in_window": np.ones(codes.size, dtype=bool),
            "ok": np.ones(codes.size, dtype=bool),
            **({} if tokens is None else {"tokens_out": np.full(codes.size, tokens)}),
        },
        stages={
            "tenant": np.tile(codes, 2),
            "seq": np.tile(seq, 2),
            "stage": np.repeat(["load", "compute"], codes.size),
            "start_ns": np.concatenate([started, started + latency // 4]),
            "duration_ns": np.concatenate([latency // 4, latency - latency // 4]),
        },
        samples={
            "device": np.full(20, "cpu"),
            "t_ns": np.tile(moments, 2),
            "sensor": np.repeat(["cpu_busy_s", "temperature_c"], 10),
            "value": np.concatenate([np.arange(10) * 0.15, 50 + facts["trial"] + np.arange(10) * 0.1]),
            "unit": np.repeat(["s", "°C"], 10),
            "source": np.full(20, "test"),
        },
    )
