"""Three tenants on one core under S1 to S3: cotenant beside its peers, seed by seed, in slices of a few minutes.

    python benchmarks/serving/three_tenants.py --envs ENVS --out RESULTS --seeds 1 2

Each slice measures the tenants' spaced cost in plain torch on the device's core; objectives are three times that, and
rates give the load at that cost. Then every system is offered the same arrivals in turn. Writes one line of JSON per
run to RESULTS/runs.jsonl, with the core's stolen and idle time and the activity of other processes. `figures.py` makes
tables of them. ENVS contains one environment per peer: see peers/README.md.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import machine
from load import sent
from scenarios import LOADS, TIMES, arrivals
from systems import HERE, SYSTEMS, Ground, System, start, wait_ready

sys.path.insert(0, str(HERE / "peers"))


def solo(models: Path, core: int) -> dict[str, dict[str, float]]:
    """Costs alone, measured in a separate process."""
    environment = os.environ | {"MODELS": str(models), "CORE": str(core), "OMP_NUM_THREADS": "1"}
    report = subprocess.run(
        [sys.executable, str(HERE / "solo.py")], env=environment, check=True, capture_output=True, text=True
    )
    measured: dict[str, dict[str, float]] = json.loads(report.stdout.splitlines()[-1])
    return measured


@contextmanager
def speed_probe(models: Path, core: int) -> Iterator[Callable[[], float]]:
    """Returns a function that measures bert's current back-to-back time: the core's speed jumps."""
    environment = os.environ | {"MODELS": str(models), "CORE": str(core), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "solo.py"), "probe"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> float:
            print(file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]

        ask()
        yield ask
        process.stdin.close()


def one_run(system: System, scenario: str, seed: int, spaced_s: dict[str, float], options: Any) -> dict[str, Any]:
    """Offer a scenario to a running server."""
    plan = arrivals(scenario, spaced_s, seconds=options.seconds, seed=seed)
    system.chunks()  # those of earlier runs
    answers, before, after = asyncio.run(_offer(system, plan, options))
    spent = {name: getattr(after, name) - getattr(before, name) for name in machine.Reading._fields}
    met = {
        name: [status == 200 and late <= TIMES * spaced_s[name] for late, status in seen]
        for name, seen in answers.items()
    }
    return {
        "system": system.name,
        "scenario": scenario,
        "seed": seed,
        "seconds": options.seconds,
        "asked": {name: len(seen) for name, seen in met.items()},
        "met": {name: sum(seen) for name, seen in met.items()},
        "served": {name: sum(status == 200 for _, status in seen) for name, seen in answers.items()},
        "goodput": sum(sum(seen) * spaced_s[name] for name, seen in met.items()) / options.seconds,
        "worst": min(sum(seen) / max(1, len(seen)) for seen in met.values()),
        "took_s": round(max(late for seen in answers.values() for late, _ in seen), 3),
        "idle": 1 - spent["device_s"] / options.seconds,
        "steal": spent["steal_s"] / options.seconds,
        "foreign": (spent["work_s"] - spent["ours_s"]) / options.seconds,
    }


async def _offer(system: System, plan: list[tuple[float, str]], options: Any) -> tuple[Any, Any, Any]:
    """Answers, and readings at the start and end of the load: later answers don't count as use."""
    begin = time.perf_counter() + 0.2
    load = asyncio.create_task(sent(system.where, system.wire, plan, begin))
    await asyncio.sleep(begin - time.perf_counter())
    before = machine.read(options.core)
    await asyncio.sleep(options.seconds)
    after = machine.read(options.core)
    return await load, before, after


def main(options: argparse.Namespace) -> None:
    """One slice: costs, servers, then all runs."""
    os.sched_setaffinity(0, {options.front})
    options.out.mkdir(parents=True, exist_ok=True)
    models = options.out / "models"
    if not models.exists():
        from tenants import make  # type: ignore[import-not-found] # in peers

        make(models)
    began = time.time()
    costs = solo(models, options.core)
    spaced_s = costs["spaced_s"]
    with tempfile.TemporaryDirectory() as work, (options.out / "runs.jsonl").open("a") as out, ExitStack() as stack:
        ground = Ground(options.envs, models, Path(work), options.core, options.front, spaced_s)
        standing: list[System] = []
        try:
            for name in options.systems:
                system = start(name, ground)
                try:
                    wait_ready(system)
                except RuntimeError as error:
                    log = (Path(work) / f"{name}.log").read_text(errors="replace")
                    print(f"left out: {error}\n{log[-3000:]}", file=sys.stderr)
                    system.stop()
                    continue
                standing.append(system)
                if system.file and not system.costs():
                    raise RuntimeError(f"{name} wrote no costs: policy_server.py no longer replaces the scheduler")
                system.suspend()
            probe = stack.enter_context(speed_probe(models, options.core))
            for seed in options.seeds:
                if time.time() > options.until:
                    break
                turns = [
                    (system, scenario)
                    for system in standing
                    for scenario in options.scenarios
                    if not options.turns or f"{system.name}:{scenario}" in options.turns
                ]
                random.Random(seed).shuffle(turns)  # noqa: S311
                for system, scenario in turns:
                    before = probe()
                    system.resume()
                    row = one_run(system, scenario, seed, spaced_s, options)
                    time.sleep(0.5)  # let abandoned requests finish
                    system.suspend()
                    row |= {"slice": int(began), "spaced_s": spaced_s, "close_s": costs["close_s"]}
                    row["slowdown"] = [one / costs["close_s"]["bert"] for one in (before, probe())]
                    row["costs"], row["chunks"] = system.costs(), system.chunks()
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    print(_line(row), flush=True)
        finally:
            for system in standing:
                system.stop()
                if seen := system.seen():
                    report = {"slice": int(began), "system": system.name, **seen}
                    print(json.dumps(report), flush=True)
                    with (options.out / "seen.jsonl").open("a") as file:
                        file.write(json.dumps(report) + "\n")


def _line(row: dict[str, Any]) -> str:
    parts = "/".join(f"{row['met'][name] / max(1, row['asked'][name]):.2f}" for name in row["met"])
    return (
        f"{row['scenario']} {row['seed']:>2} {row['system']:<16} {parts}  goodput {row['goodput']:.2f}  "
        f"idle {row['idle']:.2f}  steal {row['steal']:.3f}  foreign {row['foreign']:.2f}  "
        f"slowdown {row['slowdown'][0]:.2f}-{row['slowdown'][1]:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=Path, required=True, help="Folder with one environment per peer.")
    parser.add_argument("--out", type=Path, required=True, help="Folder for results and models.")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--scenarios", nargs="+", choices=list(LOADS), default=list(LOADS))
    parser.add_argument("--turns", nargs="+", help="Only these pairs, as SYSTEM:SCENARIO.")
    parser.add_argument("--until", type=float, default=float("inf"), help="Begin no seed after this Unix time.")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--core", type=int, default=1, help="The core that acts as the device.")
    parser.add_argument("--front", type=int, default=0, help="The core of front ends and of the load.")
    main(parser.parse_args())
