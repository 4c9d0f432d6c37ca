"""Precision of the answers after a minute: `python benchmarks/sharp.py [quick] [busy] [growth] [replay]`.

quick    the demo: half-widths of its slowdowns, share of valid trials, CPU share of the runner
busy     the same beside a process that takes half a core
growth   a minute of windows of 100 ms: growth of the runner per trial; and the same windows repeated ten times: bytes
         on disk and the time of `show`
replay   the estimator on simulated blocks of a machine whose speed varies by 1 % per second
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lengthened import lengthen

HALF_A_CORE = (
    "import time\nwhile True:\n e = time.monotonic() + 0.01\n while time.monotonic() < e: pass\n time.sleep(0.01)"
)
RUNNER = """
WITH readings AS (SELECT trial, t_ns / 1e9 AS t_s, value FROM samples WHERE sensor = 'runner_cpu_s'),
windows AS (SELECT max(value) - min(value) AS used_s, max(t_s) - min(t_s) AS s FROM readings GROUP BY trial)
SELECT (SELECT sum(used_s) / sum(s) FROM windows),
    (SELECT (max(value) - min(value)) / (max(t_s) - min(t_s)) FROM readings)
"""
"""CPU use of runner and sampler: while windows run, and over all, with the writing of records between windows."""
GROWTH_S = 60
SHOW = "import sys; from cotenant.cli.main import entry; sys.argv = ['cotenant', 'show', *sys.argv[1:]]; entry()"


def quick() -> dict[str, Any]:
    """The demo, once."""
    import cotenant

    with tempfile.TemporaryDirectory() as out:
        begin = time.monotonic()
        result = cotenant.run("quick", out=Path(out))
        seconds = time.monotonic() - begin
        runner = cotenant.sql(RUNNER, [result.folder]).rows[0]
        measured = cotenant.sql("SELECT sum(window_s) FROM trials WHERE block >= 0", [result.folder]).rows[0]
    return _widths(result) | {
        "seconds": seconds,
        "share_of_time_in_windows": measured[0] / seconds,
        "valid_share": _valid_share(result),
        "exit_code": 0 if result.usable else 2,
        "runner_share_of_a_core": runner[0],
        "runner_share_with_writing": runner[1],
        "sentence": next(iter(result.summary.accuracy.values())).sentence(),
    }


def busy() -> dict[str, Any]:
    """The demo beside a process that takes half a core."""
    neighbour = subprocess.Popen([sys.executable, "-c", HALF_A_CORE])
    try:
        return quick()
    finally:
        neighbour.kill()
        neighbour.wait()


def growth() -> dict[str, Any]:
    """Bytes of a trial on disk and in the runner's memory."""
    import cotenant
    from cotenant.measure.events import Event, TrialDone
    from cotenant.study.files import study_from

    study = study_from(
        {
            "name": "growth",
            "tenants": {name: {"workload": "resnet50-mini", "threads": 1} for name in ("a", "b")},
            "mixes": ["pairs"],
            "window": "100ms",
            "lead": "20ms",
            "until": None,
            "blocks": {"min": 3, "max": 100_000},
            "budget": f"{GROWTH_S}s",
        }
    )
    seen: list[tuple[int, int]] = []

    def listener(event: Event) -> None:
        if isinstance(event, TrialDone):
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
            seen.append((len(seen), resident))

    with tempfile.TemporaryDirectory() as out:
        result = cotenant.run(study, out=Path(out), listener=listener)
        windows = lengthen(result.folder, 600 // GROWTH_S)
        size = sum(file.stat().st_size for file in result.folder.rglob("*") if file.is_file())
        begin = time.monotonic()
        command = [sys.executable, "-c", SHOW, result.folder]
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode in {0, 2}
        show_s = time.monotonic() - begin
    return {
        "trials": len(seen),
        "windows_in_ten_minutes": windows,
        "disk_mb_in_ten_minutes": size / 1e6,
        "runner_growth_bytes_per_trial": _growth_of_the_floor(seen),
        "show_s": show_s,
    }


def _growth_of_the_floor(seen: list[tuple[int, int]]) -> float:
    """Bytes per trial between the lowest points of the second and of the last third of a run.

    In the first third libraries still load, and the database's memory rises and falls with each of its connections.
    """
    third = len(seen) // 3
    (first, low), (last, high) = (
        min(part, key=lambda one: one[1]) for part in (seen[third : 2 * third], seen[2 * third :])
    )
    return (high - low) / (last - first)


def replay(studies: int = 200, blocks: int = 150) -> dict[str, Any]:
    """A tenant slowed down by 1.3 beside another; a block takes 0.4 s, the speed drifts by 1 % per second."""
    from cotenant.analyse.estimates.intervals import ratio_interval

    rng = np.random.default_rng(1)
    widths, held = [], 0
    for _ in range(studies):
        walk = np.cumsum(0.01 * np.sqrt(0.13) * rng.normal(size=3 * blocks)).reshape(blocks, 3)
        windows = walk + 0.01 * rng.normal(size=(blocks, 3))
        found = ratio_interval(np.log(1.3) + windows[:, 2] - windows[:, 0])
        assert found.lo is not None
        assert found.hi is not None
        widths.append(found.relative_half_width or 0.0)
        held += found.lo <= 1.3 <= found.hi
    return {"half_width": statistics.median(widths), "intervals_that_hold": held / studies}


def _widths(result: Any) -> dict[str, float]:
    widths = [
        tenant.slowdown.relative_half_width
        for tenant in result.summary.tenants
        if not tenant.cell.solo and getattr(tenant.slowdown, "relative_half_width", None) is not None
    ]
    blocks = max((tenant.blocks for tenant in result.summary.tenants), default=0)
    return {"median_half_width": statistics.median(widths), "widest_half_width": max(widths), "blocks": blocks}


def _valid_share(result: Any) -> float:
    verdicts = [mix.trials_by_verdict for mix in result.summary.mixes]
    return sum(one.get("valid", 0) for one in verdicts) / sum(sum(one.values()) for one in verdicts)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "quick": quick,
    "busy": busy,
    "growth": growth,
    "replay": replay,
}


def measure(parts: list[str] | None = None) -> dict[str, Any]:
    """All of it, or some, in one run on one machine; with the load of the preceding minute, which should be near 0."""
    return {name: {"load_before": os.getloadavg()[0], **PARTS[name]()} for name in parts or PARTS}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:]), indent=2))
