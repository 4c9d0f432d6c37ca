"""Cost of the instrument itself: a tenant that does nothing, under cotenant and under MLPerf LoadGen, interleaved.

Both drive the same Python function. Per-request cost: mean interval between back-to-back requests. Schedule error: time
from due to done, at 1,000 requests/s with Poisson arrivals (the function takes no time, so all of it is the
generator's). LoadGen reports its schedule only through the latencies in its summary, so both are compared by latency.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 5
SECONDS = 2.0
RATE = 1000


def ours() -> dict[str, float]:
    """One round of cotenant: the runner, a tenant process and the sampler, as in a real run."""
    from cotenant.devices import find_device
    from cotenant.measure.gather import Timing
    from cotenant.measure.live import LiveBench
    from cotenant.measure.sampler import Samples
    from cotenant.measure.tenants.own_use import RUNNER_CPU, share_of_window
    from cotenant.tenancy.load import Load
    from cotenant.tenancy.nouns import Tenant, Trial
    from cotenant.tenancy.sharing import Sharing
    from cotenant.tenancy.ways import ALONE
    from cotenant.workloads.protocol import Properties, WorkloadSpec

    unknown = Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=None)
    bench = LiveBench(
        find_device("cpu"), run="bench", properties=lambda _: unknown, memory_of=lambda _: 0, warm_s=(0.1, 1.0)
    )

    def trial(number: int, load: Load) -> Any:
        tenant = Tenant(name="null", of="null", workload=WorkloadSpec(name="null"), load=load)
        return bench.carry_out(
            Trial(
                number=number, block=0, order=number, mix="null", tenants=(tenant,), sharing=Sharing(mode=ALONE),
                load=str(load), window_s=SECONDS, lead_s=0.2, seed=number,
            ),
            session=0,
            rates={},
        )  # fmt: skip

    closed, scheduled = trial(0, Load(kind="closed")), trial(1, Load(kind="poisson", rate_rps=RATE))
    bench.close()
    keep = closed.requests["in_window"]
    starts = closed.requests["started_ns"][keep]
    counted = scheduled.requests["in_window"] & scheduled.requests["ok"]
    late = (scheduled.requests["done_ns"] - scheduled.requests["intended_ns"])[counted]
    begin = scheduled.trial["window_start_ns"]
    timing = Timing(scheduled.trial["start_ns"], begin, begin + int(SECONDS * 1e9), 0)
    runner = share_of_window(Samples(scheduled.samples, ()), RUNNER_CPU, timing, cores=1)
    return {
        "per_request_ns": float(np.diff(starts).mean()),
        "error_p50_us": float(np.quantile(late, 0.5)) / 1e3,
        "error_p99_us": float(np.quantile(late, 0.99)) / 1e3,
        "runner_share": float(runner or 0.0),
    }


def loadgen() -> dict[str, float]:
    """One round of LoadGen in a separate process, since its summary is a file in the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "loadgen"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return {str(key): float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def _loadgen_child() -> None:
    import mlperf_loadgen as lg

    from cotenant.workloads.instrument import WORKLOADS
    from cotenant.workloads.protocol import WorkloadSpec

    null = next(workload for workload in WORKLOADS if workload.name == "null")
    request = null.build(WorkloadSpec(name="null"), None).stages[0].run  # type: ignore[arg-type]  # needs no place

    def served(samples: Any) -> None:
        responses = []
        for sample in samples:
            request(None)
            responses.append(lg.QuerySampleResponse(sample.id, 0, 0))
        lg.QuerySamplesComplete(responses)

    def run(configure: Callable[[Any], None]) -> str:
        settings = lg.TestSettings()
        settings.mode = lg.TestMode.PerformanceOnly
        settings.min_duration_ms = settings.max_duration_ms = int(SECONDS * 1000)
        settings.min_query_count = 100
        configure(settings)
        sut, qsl = lg.ConstructSUT(served, lambda: None), lg.ConstructQSL(1024, 1024, lambda _: None, lambda _: None)
        lg.StartTest(sut, qsl, settings, "absent.conf")
        lg.DestroyQSL(qsl)
        lg.DestroySUT(sut)
        return Path("mlperf_log_summary.txt").read_text()

    def single(settings: Any) -> None:
        settings.scenario = lg.TestScenario.SingleStream
        settings.single_stream_expected_latency_ns = 2_000

    def server(settings: Any) -> None:
        settings.scenario = lg.TestScenario.Server
        settings.server_target_qps = RATE
        settings.server_target_latency_ns = 100_000_000

    back_to_back, scheduled = run(single), run(server)
    rate = _number(back_to_back, r"QPS w/o loadgen overhead"), _number(back_to_back, r"QPS w/ loadgen overhead")
    result = {
        "per_request_ns": 1e9 / rate[1],
        "error_p50_us": _number(scheduled, r"50\.00 percentile latency \(ns\)") / 1e3,
        "error_p99_us": _number(scheduled, r"99\.00 percentile latency \(ns\)") / 1e3,
    }
    sys.stdout.write("\n" + json.dumps(result) + "\n")


def _number(summary: str, label: str) -> float:
    found = re.search(label + r"\s*:\s*([0-9.e+]+)", summary)
    if found is None:
        raise SystemExit(f"LoadGen's summary has no line {label!r}:\n{summary}")
    return float(found.group(1))


def measure() -> dict[str, Any]:
    """Medians over interleaved rounds, and the ratios within each round."""
    rounds = [(ours(), loadgen()) for _ in range(ROUNDS)]
    names = ("per_request_ns", "error_p50_us", "error_p99_us")
    result: dict[str, Any] = {
        name: {
            "cotenant": statistics.median(mine[name] for mine, _ in rounds),
            "loadgen": statistics.median(theirs[name] for _, theirs in rounds),
            "ratio": statistics.median(mine[name] / theirs[name] for mine, theirs in rounds),
        }
        for name in names
    }
    result["runner_share"] = statistics.median(mine["runner_share"] for mine, _ in rounds)
    result["rounds"] = ROUNDS
    return result


if __name__ == "__main__":
    if sys.argv[1:] == ["loadgen"]:
        os.environ.setdefault("PYTHONUNBUFFERED", "1")
        _loadgen_child()
    else:
        print(json.dumps(measure(), indent=2))
