r"""A real engine on this machine's CPU: calibrated from its endpoint, predicted at other loads, then measured there.

The engine has one core, its clients use another. It is calibrated, predicted and measured alone at three loads that
weren't probed, and beside a neighbour on its core and on the other. About ten minutes on a machine with two idle cores:

    python benchmarks/engine_live.py --python VLLM_ENVIRONMENT/bin/python
    LIVE='llama-server --model MODEL_FOLDER/model.gguf --parallel 8 --threads 1 --port {port}' \
        python benchmarks/engine_live.py --model llama-3.2-1b-mini
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil

VLLM = (
    "{python} -m vllm.entrypoints.openai.api_server --model {folder} --served-model-name {model} --port {{port}} "
    "--dtype bfloat16 --no-enable-prefix-caching --enforce-eager"
)
PROMPT, TOKENS, IN_FLIGHT = 256, 32, 8
"""The load that it is calibrated for."""
LOADS = ("128/24 closed(4)", "192/32 closed(6)", "224/24 2/s")
BESIDE = "128/32 closed(4)"
WITHIN = {"p50": 0.15, "p95": 0.25}
BESIDE_WITHIN = 0.25
COVERED = 9
WARM_S = 3.0
BUSY = """import numpy
a = numpy.random.default_rng(0).random((512, 512), dtype=numpy.float32)
while True:
    a @ a
"""


@contextmanager
def engine(start: str, core: int) -> Iterator[Any]:
    """A real server on this core."""
    from cotenant.workloads.servers.process import ServerProcess
    from cotenant.workloads.servers.spec import ServerSpec

    variables = {
        "VLLM_CPU_OMP_THREADS_BIND": str(core), "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    }  # fmt: skip
    process = ServerProcess(ServerSpec(start=start, env=variables, ready="/v1/models", ready_within_s=400))
    try:
        process.wait_until_ready()
        for member in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)):
            for thread in member.threads():
                os.sched_setaffinity(thread.id, {core})
        yield process
    finally:
        process.stop()


@contextmanager
def neighbour(folder: Path, core: int | None) -> Iterator[None]:
    """Matrix products without a pause on this core; None for no neighbour."""
    if core is None:
        yield
        return
    script = folder / "busy.py"
    script.write_text(BUSY, encoding="utf-8")
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # In a session of its own, as the server: Linux may share a core evenly between sessions, not processes.
    process = subprocess.Popen([sys.executable, str(script)], env=variables, start_new_session=True)
    os.sched_setaffinity(process.pid, {core})
    os.setpriority(os.PRIO_PROCESS, process.pid, 0)
    try:
        time.sleep(1.0)
        yield
    finally:
        process.kill()
        process.wait()


async def served(client: Any, load: Any, seconds: float) -> list[tuple[float, float]]:
    """Times to first token from when a request was due, and per further token, in ms."""
    from cotenant.tenancy.load import arrivals_ns
    from cotenant.workloads.servers.engine_probes import timed_request

    begin, times, numbers, together = time.monotonic_ns(), list[tuple[float, float]](), count(), 0

    async def request(due_ns: int | None = None) -> None:
        nonlocal together
        late_ms = 0.0 if due_ns is None else (time.monotonic_ns() - due_ns) / 1e6
        timed = await timed_request(client, next(numbers))
        if timed.ttft_ms is None or timed.tpot_ms is None:
            together += 1
        elif (time.monotonic_ns() - begin) / 1e6 - timed.ms + timed.ttft_ms > WARM_S * 1e3:
            times.append((timed.ttft_ms + late_ms, timed.tpot_ms))

    async def user() -> None:
        while time.monotonic_ns() - begin < (seconds + WARM_S) * 1e9:
            await request()

    async with asyncio.TaskGroup() as group:
        if not load.open:
            for _ in range(load.outstanding):
                group.create_task(user())
        else:
            for due in arrivals_ns(load, seed=7, horizon_s=seconds + WARM_S):
                await asyncio.sleep(max(0.0, (begin + int(due) - time.monotonic_ns()) / 1e9))
                group.create_task(request(begin + int(due)))
    await client.close()
    if together:
        print(f"  tokens of {together} requests came together, and don't count", file=sys.stderr)
    return times


def measured(url: str, model: str, text: str, seconds: float) -> Any:
    """TTFT and TPOT of requests at a load: two columns, in ms."""
    from cotenant.tenancy.load import Load
    from cotenant.workloads.servers.engine_probes import EngineProbes

    lengths, arrivals = text.split()
    prompt, tokens = map(int, lengths.split("/"))
    load = Load.model_validate(f"poisson({arrivals.removesuffix('/s')})" if "/" in arrivals else arrivals)
    client = EngineProbes(url, model, api="completions", headers={}).client(prompt, tokens)
    times = np.array(asyncio.run(served(client, load, seconds)))
    print(f"  {text}: {len(times)} requests", file=sys.stderr)
    return times


def compared(name: str, times: Any, predicted: Any, quantities: Sequence[str]) -> list[tuple[float, bool, str]]:
    """Error of each time, and whether it is inside the predicted range."""
    rows = []
    for quantity in quantities:
        for quantile, time_ms in zip(WITHIN, getattr(predicted, quantity), strict=True):
            seen = float(np.quantile(times[:, ("ttft", "tpot").index(quantity)], int(quantile[1:]) / 100))
            error, inside = time_ms.ms / seen - 1, time_ms.low <= seen <= time_ms.high
            rows.append((error, inside, quantile))
            print(
                f"{name:26} {quantity} {quantile} measured {seen:8.1f} ms, predicted {time_ms.ms:8.1f} "
                f"[{time_ms.low:.1f}, {time_ms.high:.1f}] ms, {error:+.0%}{'' if inside else ', outside'}",
                flush=True,
            )
    return rows


def main() -> None:
    """Calibrate, predict, measure, compare; exit code 1 unless the bounds are kept."""
    from cotenant.api.calibrate import calibrate_server, predict_server
    from cotenant.workloads import find
    from cotenant.workloads.models.exporting import export_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="of an environment with vllm-cpu")
    parser.add_argument("--model", default="distilgpt2")
    parser.add_argument("--calibrate", type=float, default=180.0, help="seconds")
    parser.add_argument("--measure", type=float, default=60.0, help="seconds of each load")
    given = parser.parse_args()
    other_core, core = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {other_core})
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        start = os.environ.get("LIVE")
        if start is None:
            export_model(find(given.model).entry, folder / "model", dtype="bfloat16")
            start = VLLM.format(python=given.python, folder=folder / "model", model=given.model)
        with engine(start, core) as server:
            with suppress(PermissionError):  # read what arrives at once, though a neighbour keeps this core busy
                os.setpriority(os.PRIO_PROCESS, 0, -10)
            url, file = f"http://127.0.0.1:{server.port}", folder / "calibration.csv"
            calibration = calibrate_server(
                url, workload=given.model, api="completions", prompt=PROMPT, tokens=TOKENS, in_flight=IN_FLIGHT,
                seconds=given.calibrate, say=lambda line: print(f"  {line}", file=sys.stderr),
            )  # fmt: skip
            file.write_text(calibration.to_csv(), encoding="utf-8")
            model = calibration.fit.probes[0].workload
            for rate in calibration.fit.rates:
                print(f"  {rate.value:10.3g} ± {rate.half:8.2g} {rate.rate.unit}", file=sys.stderr)
            print("\n".join(calibration.notes), file=sys.stderr)
            alone = [
                row
                for load, predicted in zip(LOADS, predict_server(file, LOADS), strict=True)
                for row in compared(load, measured(url, model, load, given.measure), predicted, ("ttft", "tpot"))
            ]
            beside = []
            for name, neighbours, share in (("shared core", core, 1.0), ("disjoint cores", other_core, 0.0)):
                [predicted] = predict_server(file, [BESIDE], beside=share)
                with neighbour(folder, neighbours):
                    times = measured(url, model, BESIDE, given.measure)
                beside += compared(f"{BESIDE}, {name}", times, predicted, ("tpot",))[:1]
    kept = sum(abs(error) <= WITHIN[quantile] for error, _, quantile in alone)
    covered = sum(inside for _, inside, _ in alone)
    near = sum(abs(error) <= BESIDE_WITHIN for error, _, _ in beside)
    print(f"alone: {kept} of {len(alone)} within the bounds, {covered} inside their ranges; beside a neighbour: "
          f"{near} of {len(beside)} within {BESIDE_WITHIN:.0%}; {time.monotonic() - begin:.0f} s")  # fmt: skip
    sys.exit(0 if kept == len(alone) == 12 and covered >= COVERED and near == len(beside) == 2 else 1)


if __name__ == "__main__":
    main()
