"""Quality and speed of plans: synthetic tenants that interfere, on devices of two kinds; and tenants of the catalogue.

    python -m benchmarks.planning                    the synthetic tenants
    python -m benchmarks.planning catalogue 200 60   `plan` for 200 tenants of the catalogue with 60 s
    python -m benchmarks.planning refused 20         every printed single change of 20 refused plans, tried

A tenant needs a share of a device that grows with its neighbours' memory pressure: share x (1 + feels x sum of the
neighbours' pressure). A group fits if its shares and its memory do. The second kind of device has half the size and
half the price.
"""

import json
import resource
import shlex
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cotenant.api.plan import Plan, plan
from cotenant.errors import ImpossibleObjectives
from cotenant.planning.check_simulated import device_simulation
from cotenant.planning.solver.generation import generate, start
from cotenant.planning.solver.problem import NOBODY, Ints, JudgedGroups, Problem, WayToUse, cost_of
from cotenant.planning.solver.solve import solve
from cotenant.tenancy.plan_document import PlanDevice
from cotenant.workloads.catalogue import catalogue

SIZES = {"large": (1.0, 80.0, 1.0), "small": (0.5, 40.0, 0.5)}
"""Compute, memory (GiB), price of each kind."""


def synthetic(tenants: int, *, seed: int, large: int, small: int) -> Problem:
    """An instance: shares 5 to 45 % of the large device, memory 2 to 30 GiB, pressure up to 1, felt up to 0.6."""
    random = np.random.default_rng(seed)
    share = np.append(random.uniform(0.05, 0.45, tenants), 0.0)
    memory = np.append(random.uniform(2.0, 30.0, tenants), 0.0)
    pressure = np.append(random.uniform(0.0, 1.0, tenants), 0.0)
    feels = np.append(random.uniform(0.0, 0.6, tenants), 0.0)
    options = tuple(WayToUse(kind, price) for kind, (_, _, price) in enumerate(SIZES.values()))

    def judge(option: int, groups: Ints) -> JudgedGroups:
        compute, room, price = list(SIZES.values())[option]
        there = groups != NOBODY
        press = np.where(there, pressure[groups], 0.0)
        others = press.sum(axis=1, keepdims=True) - press
        busy = (share[groups] * (1 + feels[groups] * others)).sum(axis=1) / compute
        fits = (busy <= 1) & (memory[groups].sum(axis=1) <= room)
        return JudgedGroups(fits, busy, np.full(len(groups), price))

    return Problem(tenants, options, (large, small), judge)


def measure() -> dict[str, Any]:
    """Gaps and times."""
    hundred = []
    for seed in range(5):
        problem = synthetic(100, seed=seed, large=100, small=100)
        begin = time.perf_counter()
        begun = start(problem)
        at_once = time.perf_counter() - begin
        solved = generate(problem, begun, clock=time.monotonic, seconds=28.0)
        hundred.append(
            {
                "seed": seed,
                "best_fit_decreasing": cost_of(begun.columns),
                "cost": solved.cost,
                "bound": solved.bound,
                "gap": solved.gap,
                "at_once_s": at_once,
                "seconds": time.perf_counter() - begin,
            }
        )
        print(hundred[-1], file=sys.stderr)
    problem = synthetic(1000, seed=0, large=300, small=100)
    begin = time.perf_counter()
    begun = start(problem)
    at_once = time.perf_counter() - begin
    solved = solve(problem, clock=time.monotonic, seconds=160.0)
    thousand = {
        "best_fit_decreasing": cost_of(begun.columns),
        "without_place_at_once": len(begun.left_out),
        "without_place": len(solved.left_out),
        "cost": solved.cost,
        "bound": solved.bound,
        "below_greedy": 1 - solved.cost / cost_of(begun.columns),
        "at_once_s": at_once,
        "seconds": time.perf_counter() - begin,
    }
    return {"hundred": hundred, "thousand": thousand}


# --- tenants of the catalogue

GPU = "sim:a100-sxm4-80gb"
CHAT = 0.15
"""Part of the tenants that generate."""


@cache
def alone_s(workload: str, gpu: str = GPU) -> float:
    """Time of a request alone."""
    seat = {"rate_rps": 1.0, "runs": {"workload": workload}}
    device = PlanDevice.model_validate({"name": "d", "kind": gpu, "sharing": "processes", "tenants": {"t": seat}})
    return device_simulation(device, 0.1)[0].profile(gpu, 0, 1).alone_ms / 1e3


def of_catalogue(count: int, *, seed: int = 1) -> dict[str, Any]:
    """Models below 3.5 billion parameters; requests use 2 to 40 % of an A100, limits are 6 to 20 times one alone."""
    random = np.random.default_rng(seed)
    small = [entry for entry in catalogue() if not entry.name.endswith("-mini") and 0 < (entry.params or 0) < 3.5e9]
    chats = [entry.name for entry in small if "generate" in entry.modes]
    others = [entry.name for entry in small if "generate" not in entry.modes]
    tenants: dict[str, Any] = {}
    for number in range(count):
        if random.random() < CHAT:
            slo = {"ttft p95": "500ms", "tpot p95": "60ms"}
            tenants[f"t{number}"] = {
                "workload": str(random.choice(chats)), "tokens": 64, "software": "vllm",
                "rate": f"{random.uniform(0.2, 3):.2g}/s", "slo": slo,
            }  # fmt: skip
            continue
        name = str(random.choice(others))
        alone = alone_s(name)
        tenants[f"t{number}"] = {
            "workload": name, "rate": f"{random.uniform(0.02, 0.4) / alone:.3g}/s", "at_once": "1..16",
            "slo": {"p99": f"{1e3 * alone * random.uniform(6, 20):.1f}ms"},
        }  # fmt: skip
    return {"tenants": tenants}


def catalogued(count: int, seconds: float) -> dict[str, Any]:
    """`plan` for that many of them: when the first plan came, what came of it, and what it took."""
    content = of_catalogue(count)
    events: list[tuple[float, float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tenants.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        cpu, wall = time.process_time(), time.monotonic()

        def say(sentence: str) -> None:
            events.append((time.process_time() - cpu, time.monotonic() - wall, sentence))

        made = plan(path, f"{GPU}*{count}", seconds=seconds, say=say)
        used = time.process_time() - cpu, time.monotonic() - wall
    first = next((event for event in events if event[2].startswith("a first plan")), None)
    return {
        "tenants": count,
        "time_s": seconds,
        "first_plan": first,
        "devices": sum(device.devices for device in made.devices),
        "value": made.value,
        "bound": made.bound,
        "gap": made.gap,
        "proof": made.proof,
        "keeps_all": made.keeps_all,
        "confirmed": sum("event engine" in device.basis for device in made.devices),
        "cpu_s": used[0],
        "wall_s": used[1],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# --- refused plans: does the printed change admit the tenant?

REFUSING = ("distilbert", "bert-base", "bert-large", "resnet50", "vit-b-16", "vit-l-16", "gpt2")


def refused(count: int, *, seed: int = 1, seconds: float = 20.0) -> dict[str, Any]:
    """Plans for too little: each printed command is carried out."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tenants.yaml"
        while len({row["plan"] for row in rows}) < count:
            gpu = str(random.choice(["sim:t4", "sim:a100-sxm4-80gb", "sim:l40s"]))
            path.write_text(yaml.safe_dump(_too_much(random, gpu)), encoding="utf-8")
            number = len({row["plan"] for row in rows})
            for tenant, sentence, command, others in _refusals(path, gpu, seconds):
                works = bool(command) and _admits(command, tenant, others, seconds)
                rows.append({"plan": number, "gpu": gpu, "tenant": tenant, "change": sentence, "works": works})
                print(rows[-1], file=sys.stderr, flush=True)
    offered = [row for row in rows if row["change"]]
    return {"plans": count, "refusals": len(rows), "changes": len(offered), "work": sum(row["works"] for row in rows)}


def _too_much(random: np.random.Generator, gpu: str) -> dict[str, Any]:
    """Two to four tenants that ask for 0.9 to 2 devices together, or for answers that are nearly too fast."""
    count = int(random.integers(2, 5))
    names = [str(random.choice(REFUSING)) for _ in range(count)]
    parts = random.dirichlet(np.ones(count)) * random.uniform(0.9, 2.0)
    return {
        "tenants": {
            f"t{number}": {
                "workload": name,
                "rate": f"{part / alone_s(name, gpu):.3g}/s",
                "slo": {"p99": f"{1e3 * alone_s(name, gpu) * random.uniform(1.5, 8):.3g}ms"},
            }
            for number, (name, part) in enumerate(zip(names, parts, strict=True))
        }
    }


def _refusals(path: Path, gpu: str, seconds: float) -> list[tuple[str, str, str, frozenset[str]]]:
    """Tenant, change and command of each, and the others that are left out."""
    try:
        made = plan(path, gpu, seconds=seconds, minimise="devices", quiet=True)
    except ImpossibleObjectives as error:
        lines = [line.partition(" can be served ") for line in (error.hint or "").split("; ")]
        told = [(name, *rest.rpartition(": cotenant ")[::2]) for name, found, rest in lines if found]
        names = frozenset(name for name, _, _ in told)
        return [(name, change, f"cotenant {command}", names - {name}) for name, change, command in told] or [
            ("", "", "", frozenset())
        ]
    names = frozenset(made.left_out)
    return [(each.tenant, each.change, each.command, names - {each.tenant}) for each in made.refusals]


def _admits(command: str, tenant: str, others: frozenset[str], seconds: float) -> bool:
    """Whether the plan of this command serves the tenant; the others may still be left out."""
    words = shlex.split(command)
    overrides = [words[index + 1] for index, word in enumerate(words) if word == "--set"]
    devices = words[words.index("--devices") + 1]
    try:
        made: Plan = plan(words[2], devices, seconds=seconds, minimise="devices", overrides=overrides, quiet=True)
    except ImpossibleObjectives as error:
        return tenant not in {sentence.partition(" ")[0] for sentence in error.message.split("; ")} and bool(others)
    return tenant not in made.left_out


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["catalogue"]:
        answer = catalogued(int(arguments[1]), float(arguments[2]))
    elif arguments[:1] == ["refused"]:
        answer = refused(int(arguments[1]))
    else:
        answer = measure()
    print(json.dumps(answer, indent=2))
