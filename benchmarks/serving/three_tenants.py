"""Three tenants on one core under S1 to S3: cotenant beside its peers, seed by seed, within a given time.

    python benchmarks/serving/three_tenants.py --envs ENVS --out RESULTS --minutes 40 --write

Each slice measures the tenants' spaced cost in plain torch on the device's core; objectives are three times that, and
rates give the load at that cost. Then every system of a round is offered the same arrivals in turn (`rounds.py`). A new
slice begins when the core's speed has changed. One line of JSON per run goes to RESULTS/runs.jsonl, with the core's
stolen and idle time and the activity of other processes. The same command continues after an interruption: it repeats
rounds that are unfinished, or during which something else used the machine. `figures.py` makes tables of the runs;
``--write`` calls it. ENVS contains one environment per peer: see peers/README.md.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import figures
import machine
from load import sent
from rounds import QUIET, Round, following, planned, undone
from scenarios import TIMES, arrivals
from systems import HERE, SYSTEMS, Ground, System, start, wait_ready

sys.path.insert(0, str(HERE / "peers"))
DRIFT = 1.15
"""A core faster or slower than this, compared with the costs of the slice, begins a new slice."""
START_S = 180.0
"""Longest time until a server answers."""
ATTEMPTS = 3
"""A round that was disturbed is repeated after the others, this many times in all."""


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


class Slice:
    """Servers whose objectives are set by one measurement of the solo costs."""

    def __init__(self, options: argparse.Namespace, models: Path, work: Path, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._probe = stack.enter_context(speed_probe(models, options.core))
        for _ in range(ATTEMPTS):
            before_s = self._bert_s()
            self._costs = solo(models, options.core)
            self._reference_s = self._bert_s()
            if _alike(self._reference_s / before_s):
                break
        self._began = int(time.time())
        self._ground = Ground(options.envs, models, work, options.core, options.front, self._costs["spaced_s"])
        self._standing: dict[str, System] = {}
        self.failed: set[str] = set()

    def begin(self, names: list[str]) -> None:
        """Start servers, and suspend them until their turn."""
        for name in names:
            if name in self._standing:
                continue
            system = start(name, self._ground)
            self._stack.callback(self._leave, system)
            try:
                wait_ready(system, START_S)
            except RuntimeError as error:
                log = (self._ground.work / f"{name}.log").read_text(errors="replace")
                print(f"left out: {error}\n{log[-3000:]}", file=sys.stderr, flush=True)
                self.failed.add(name)
                continue
            if system.file and not system.costs():
                raise RuntimeError(f"{name} wrote no costs: policy_server.py no longer replaces the scheduler")
            system.suspend()
            self._standing[name] = system

    def run(self, one: Round, keep: Callable[[dict[str, Any]], None]) -> bool:
        """All runs of a round; returns whether the core still has the speed of the slice's costs.

        A run beside other work says nothing about it.
        """
        slowdowns = []
        for system, scenario in one.turns(set(self._standing)):
            row = self._measured(self._standing[system], scenario, one.seed)
            slowdowns += row["slowdown"] if row["foreign"] < QUIET else []
            keep(row)
        return not slowdowns or _alike(statistics.median(slowdowns))

    def end(self, name: str) -> None:
        """Stop a server."""
        system = self._standing.pop(name, None)
        if system is not None:
            system.stop()

    def _measured(self, system: System, scenario: str, seed: int) -> dict[str, Any]:
        before = self._slowdown()
        system.resume()
        row = one_run(system, scenario, seed, self._costs["spaced_s"], self._options)
        time.sleep(0.5)  # let abandoned requests finish
        system.suspend()
        row |= {"slice": self._began, **self._costs, "slowdown": [before, self._slowdown()]}
        return row | {"costs": system.costs(), "chunks": system.chunks()}

    def _slowdown(self) -> float:
        return self._probe() / self._reference_s

    def _bert_s(self) -> float:
        return statistics.median(self._probe() for _ in range(5))

    def _leave(self, system: System) -> None:
        system.stop()
        if seen := system.seen():
            report = {"slice": self._began, "system": system.name, **seen}
            with (self._options.out / "seen.jsonl").open("a") as file:
                file.write(json.dumps(report) + "\n")


def main(options: argparse.Namespace) -> None:
    """Slices until all rounds are done or the time is over."""
    os.sched_setaffinity(0, {options.front})
    options.out.mkdir(parents=True, exist_ok=True)
    models = options.out / "models"
    if not models.exists():
        from tenants import make  # type: ignore[import-not-found] # in peers

        make(models)
    end = time.time() + 60 * options.minutes
    rounds = planned(options.seeds, options.seeds[: options.fewer])
    systems = set(options.systems)
    rows = figures.read(options.out)
    tried: Counter[Round] = Counter()

    def next_round() -> Round | None:
        waiting = [one for one in undone(rounds, rows, systems) if tried[one] < ATTEMPTS]
        waiting.sort(key=tried.__getitem__)
        return following(waiting, systems, seconds=options.seconds, left_s=end - time.time())

    with (options.out / "runs.jsonl").open("a") as out:

        def keep(row: dict[str, Any]) -> None:
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(_line(row), flush=True)

        while (one := next_round()) is not None:
            with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
                current = Slice(options, models, Path(work), stack)
                current.begin([name for name in options.systems if name != "ray"])
                while one is not None:
                    if one.group == "ray":
                        current.begin(["ray"])
                    else:
                        current.end("ray")
                    systems -= current.failed
                    tried[one] += 1
                    steady = current.run(one, keep)
                    one = next_round()
                    if not steady:
                        print("the core's speed has changed: a new slice begins", flush=True)
                        break
    if options.write:
        figures.main(options.out, write=True)


def _alike(ratio: float) -> bool:
    return 1 / DRIFT < ratio < DRIFT


def _line(row: dict[str, Any]) -> str:
    parts = "/".join(f"{row['met'][name] / max(1, row['asked'][name]):.2f}" for name in row["met"])
    return (
        f"{time.strftime('%H:%M:%S')} {row['scenario']} {row['seed']:>2} {row['system']:<16} {parts}  "
        f"goodput {row['goodput']:.2f}  idle {row['idle']:.2f}  steal {row['steal']:.3f}  "
        f"foreign {row['foreign']:.2f}  slowdown {row['slowdown'][0]:.2f}-{row['slowdown'][1]:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=Path, required=True, help="Folder with one environment per peer.")
    parser.add_argument("--out", type=Path, required=True, help="Folder for results and models.")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="Begin no round that would end later.")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument("--fewer", type=int, default=3, help="Seeds of BentoML, LitServe, Mosec and Ray.")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seconds", type=float, default=10.0, help="Length of a run.")
    parser.add_argument("--core", type=int, default=1, help="The core that acts as the device.")
    parser.add_argument("--front", type=int, default=0, help="The core of front ends and of the load.")
    parser.add_argument("--write", action="store_true", help="Write docs/serve-live.md and its data at the end.")
    main(parser.parse_args())
