"""Random instances of plans against an independent simulation.

    python -m benchmarks.promises [INSTANCES] [SEED] [FIRST]

Each instance has 3 to 8 catalogue tenants, one in three a language-model engine among them, at loads of 0.5 to 1.2 of a
GPU. The independent simulation knows nothing of planning: the kernels of all tenants of a device run against each other
from the first arrival to the last, requests that wait are taken together, an engine goes step by step. Ten seeds, each
with service times drawn anew for each tenant from the range that the plan gives them, whose ends are exceeded as often
as the plan's risk says: in a tenth of the draws each, which are spread evenly over the range (Latin hypercube). That
often an objective may be missed: it is kept if it is in nine of ten seeds. Prints a line per instance on stderr and one
JSON document.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.special import ndtri

from cotenant.api.plan import Plan, plan
from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice, open_simulated
from cotenant.errors import ImpossibleObjectives, SharingUnavailable
from cotenant.planning.check import check_plan
from cotenant.planning.check_simulated import device_simulation
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.contention.simulate import NEVER_NS, Player, Requests, Steps, simulate
from cotenant.prediction.contention.trace import Trace, plain_trace
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.on_gpu import EngineLoad
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.plan_document import PlanDevice, PlanSeat, read_plan
from cotenant.tenancy.sharing import Sharing

WORKLOADS = ("distilbert", "bert-base", "bert-large", "resnet18", "resnet50", "mobilenet-v2", "vit-b-16", "gpt2")
ENGINE = {"workload": "llama-3.2-1b", "software": "vllm", "mode": "generate", "seq": 256, "tokens": 64}
GPUS = ("sim:a100-sxm4-80gb", "sim:t4", "sim:l40s")
SEEDS = range(501, 511)
SECONDS = 10.0
"""For each plan; most are done earlier."""
RISK = 0.1
FEWEST, SHORTEST_S, LONGEST_S = 300, 4.0, 30.0
"""Requests of the slowest tenant in a seed, and limits of the time in which they arrive."""
BACKLOG_NS = 5e9
"""Time after the last arrival: what is not done by then is late."""
WARM_UP = 0.1
LEAST_SEEDS = round(len(SEEDS) * (1 - RISK))
FACTORS = (0.95, 1.1)
WAYS = (("processes", 1), ("processes", 8), ("mps", 1), ("mps", 4), ("mps", 8), ("scheduled", 8))
"""How the independent simulation may share a device, and the most requests at once."""
SPLITS = 12
"""Divisions of the tenants over fewer devices that are tried."""


# --- the independent simulation


class Waiting:
    """A worker that takes the requests that wait together, as many as it may."""

    def __init__(self, traces: Sequence[Trace], due_ns: Floats) -> None:
        self._traces, self._due = traces, due_ns
        self._next = self._size = 0
        self._done, self._started = np.full(due_ns.size, np.nan), np.full(due_ns.size, np.nan)

    @property
    def most_kernels(self) -> int:
        """Of the largest batch."""
        return max(trace.duration_ns.size for trace in self._traces)

    @property
    def finished(self) -> bool:
        """Whether every request is done."""
        return self._next >= self._due.size

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """All that wait, or the next that comes."""
        if self.finished:
            return None, NEVER_NS
        start = max(now_ns, float(self._due[self._next]))
        waiting = int(np.searchsorted(self._due, start, side="right")) - self._next
        self._size = min(max(waiting, 1), len(self._traces))
        self._started[self._next : self._next + self._size] = start
        return self._traces[self._size - 1], start

    def end(self, now_ns: float, _device_ns: float) -> None:
        """The batch is over."""
        self._done[self._next : self._next + self._size] = now_ns
        self._next += self._size

    def requests(self) -> Requests:
        """Those that are done."""
        count = self._next
        ends = np.column_stack([self._started[:count]] * 4)
        done = self._done[:count]
        return Requests(self._due[:count], self._started[:count], done, done, done - self._started[:count], ends)


class Slowed:
    """Steps of an engine that take longer by a factor."""

    def __init__(self, engine: Steps, factor: float) -> None:
        self._engine, self._factor = engine, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """The next step."""
        trace, start = self._engine.begin(now_ns)
        return (None if trace is None else longer(trace, self._factor)), start


def longer(trace: Trace, factor: float) -> Trace:
    """A request whose device and host times are longer by a factor."""
    return replace(
        trace.slowed(factor),
        launch_ns=trace.launch_ns * factor,
        before_ns=trace.before_ns * factor,
        after_ns=trace.after_ns * factor,
    )


@cache
def gpu_of(kind: str) -> SimulatedGpuDevice:
    """A GPU."""
    return open_simulated(kind)


def times_ms(
    device: PlanDevice, factors: Sequence[float] | Floats, seed: int, due: Sequence[Floats]
) -> list[dict[str, Floats]]:
    """By tenant and metric: the time of each request, infinite for those that are not done in the end."""
    if device.sharing == "scheduled":
        return in_turns_ms(device, factors, due)
    gpu, seats = gpu_of(device.kind), list(device.tenants.values())
    tenants = [
        Tenant(name=name, of=name, workload=seat.entry.spec(), load=Load(kind="closed"))
        for name, seat in device.tenants.items()
    ]
    shares = tuple(seat.share for seat in seats if seat.share is not None)
    mode = device.sharing if len(seats) > 1 or shares else "alone"
    layout = gpu.arrange(Sharing(mode=mode, shares=shares), tenants).layout
    window_ns = max(float(times[-1]) for times in due) + 1
    players = []
    for seat, part, factor, times in zip(seats, layout.parts, factors, due, strict=True):
        spec = gpu.spec(seat.entry.spec(seat.at_once))
        steps: Any
        if gpu.served(spec):
            memory = part.memory_bytes * ENGINES[str(spec.software)].memory_share
            load = EngineLoad(window_ns, memory, times.astype(np.int64))
            steps = Slowed(gpu.engine(spec, part, load, clock_mhz=device.clock_mhz), factor)
        else:
            steps = Waiting(
                [
                    longer(_trace(device.kind, seat, size, part, device.clock_mhz), factor)
                    for size in range(1, seat.at_once + 1)
                ],
                times,
            )
        room = plain_trace(kernels=steps.most_kernels, device_ns=float(steps.most_kernels))
        players.append(
            Player(
                room,
                outstanding=0,
                sm_domain=part.sm_domain,
                dram_domain=part.dram_domain,
                priority=seat.priority,
                steps=steps,
            )
        )
    outcome = simulate(
        players,
        window_end_ns=window_ns,
        deadline_ns=window_ns + BACKLOG_NS,
        slicing=layout.slicing if len(players) > 1 else None,
        host_spread=0.03,
        seed=seed,
    )
    rows = []
    for seat, requests, times in zip(seats, outcome.requests, due, strict=True):
        missing = np.full(max(times.size - requests.done.size, 0), np.inf)
        whole, first = requests.done - requests.intended, requests.first - requests.intended
        steps_ns = (whole - first) / max((seat.runs.tokens or 1) - 1, 1)
        kept = int(times.size * WARM_UP)
        rows.append({
            metric: np.concatenate([values, missing])[kept:] / 1e6
            for metric, values in (("latency", whole), ("ttft", first), ("tpot", steps_ns))
        })  # fmt: skip
    return rows


def in_turns_ms(
    device: PlanDevice, factors: Sequence[float] | Floats, due: Sequence[Floats]
) -> list[dict[str, Floats]]:
    """The same where one server takes what is due first, with others of that tenant that wait, and finishes it."""
    seats, whole = list(device.tenants.values()), whole_of(gpu_of(device.kind).gpu)
    takes = [
        [
            factor * _trace(device.kind, seat, size, whole, device.clock_mhz).alone_ns()
            for size in range(1, seat.at_once + 1)
        ]
        for seat, factor in zip(seats, factors, strict=True)
    ]
    limits = [min(objective.limit_ms for objective in seat.objectives) * 1e6 for seat in seats]
    heads, done, now = [0] * len(seats), [np.full(times.size, np.inf) for times in due], 0.0
    last = max(float(times[-1]) for times in due) + BACKLOG_NS
    while (left := [place for place, times in enumerate(due) if heads[place] < times.size]) and now < last:
        now = max(now, min(float(due[place][heads[place]]) for place in left))
        waiting = [place for place in left if due[place][heads[place]] <= now]
        place = min(waiting, key=lambda place: due[place][heads[place]] + limits[place])
        arrived = int(np.searchsorted(due[place], now, side="right"))
        size = min(arrived - heads[place], len(takes[place]))
        now += takes[place][size - 1]
        done[place][heads[place] : heads[place] + size] = now
        heads[place] += size
    whole_ms = [(ends - times)[int(times.size * WARM_UP) :] / 1e6 for ends, times in zip(done, due, strict=True)]
    return [dict.fromkeys(("latency", "ttft", "tpot"), times) for times in whole_ms]


def _trace(kind: str, seat: PlanSeat, size: int, part: Any, clock_mhz: float | None) -> Trace:
    return _traced(kind, seat.entry.spec(size).model_dump_json(), part, clock_mhz)


@cache
def _traced(kind: str, spec: str, part: Any, clock_mhz: float | None) -> Trace:
    from cotenant.workloads.protocol import WorkloadSpec

    gpu = gpu_of(kind)
    return gpu.trace(
        gpu.request(gpu.spec(WorkloadSpec.model_validate_json(spec))), part, Controls(), clock_mhz=clock_mhz
    )


def seeds_kept(device: PlanDevice, ranges: Mapping[str, tuple[float, float]], *, least: int = 0) -> dict[str, int]:
    """By objective: the number of seeds in which it is kept.

    Args:
        device: The device of a plan.
        ranges: By tenant: the range of its service times.
        least: Stop as soon as an objective can't be kept in so many.
    """
    seats = device.tenants
    draws = drawn(len(seats))
    seconds = float(np.clip(FEWEST / min(seat.rate_rps for seat in seats.values()), SHORTEST_S, LONGEST_S))
    logs = np.log([ranges[seat.tenant or name] for name, seat in seats.items()])
    kept: dict[str, int] = {}
    for count, seed in enumerate(SEEDS, start=1):
        spread = (logs[:, 1] - logs[:, 0]) / 2 / ndtri(1 - RISK)
        factors = np.exp(logs.mean(axis=1) + spread * draws[count - 1])
        due = []
        for number, seat in enumerate(seats.values()):
            assert seat.load is not None
            times = arrivals_ns(seat.load, seed=1000 * seed + number, horizon_s=seconds).astype(np.float64)
            due.append(times if times.size else np.zeros(1))
        for (name, seat), row in zip(seats.items(), times_ms(device, factors, seed, due), strict=True):
            for objective in seat.objectives:
                in_time = float((row[objective.metric] <= objective.limit_ms).mean())
                key = f"{name} {objective.label}"
                kept[key] = kept.get(key, 0) + (in_time >= objective.quantile)
        if min(kept.values()) + len(SEEDS) - count < least:
            break
    return kept


def drawn(tenants: int) -> Floats:
    """Seeds x tenants: standard normal draws, for each tenant one from every tenth of the distribution.

    Ten independent draws would leave it to luck whether the slow end of a range is among them at all.
    """
    random = np.random.default_rng(7)
    parts = np.stack([random.permutation(len(SEEDS)) for _ in range(tenants)], axis=1)
    return np.asarray(ndtri((parts + random.random(parts.shape)) / len(SEEDS)))


def keeps(device: PlanDevice, ranges: Mapping[str, tuple[float, float]]) -> bool:
    """Whether every objective is."""
    return min(seeds_kept(device, ranges, least=LEAST_SEEDS).values()) >= LEAST_SEEDS


def ranges_of(device: PlanDevice) -> dict[str, tuple[float, float]]:
    """By tenant: how much less and more time than predicted its requests may take, as the plan has it."""
    simulation, mix = device_simulation(device, RISK)
    low, high = ClosedForm(simulation).errors.factors(mix, closed=False)
    return {
        seat.tenant or name: (float(low[0, place]), float(high[0, place]))
        for place, (name, seat) in enumerate(device.tenants.items())
    }


# --- instances


def instance(random: np.random.Generator, gpu: str, number: int) -> dict[str, Any]:
    """Tenants that ask for 0.5 to 1.2 of a device together, with limits of 4 to 12 times a request alone."""
    count = int(random.integers(3, 9))
    parts = random.dirichlet(np.ones(count)) * random.uniform(0.5, 1.2)
    tenants: dict[str, Any] = {}
    for place, part in enumerate(parts):
        factor = float(random.uniform(4, 12))
        workload = str(random.choice(WORKLOADS))
        if number % 3 == 0 and place == 0:
            alone = alone_ms(gpu, **ENGINE)
            limits = {f"{metric} p95": f"{factor * alone[metric]:.3g}ms" for metric in ("ttft", "tpot")}
            # Ten sequences at once take about as long as one.
            rate = max(10 * float(part) / alone["latency"] * 1e3, 0.5)
            tenants["chat"] = {**ENGINE, "rate": f"{rate:.3g}/s", "slo": limits}
            continue
        alone = alone_ms(gpu, workload=workload)
        tenants[f"t{place}"] = {
            "workload": workload,
            "rate": f"{max(float(part) / alone['latency'] * 1e3, 0.5):.3g}/s",
            "at_once": "1..8",
            "slo": {"p99": f"{alone['latency'] * factor:.3g}ms"},
        }
    return {"tenants": tenants}


def alone_ms(gpu: str, **runs: Any) -> dict[str, float]:
    """The times of a request alone."""
    device = _device(gpu, "alone", {"t": {"rate": "1/s", "slo": {"p99": "1s"}, **runs}}, 1)
    (times,) = times_ms(device, [1.0], 1, [np.array([1e6])])
    return {metric: float(values[0]) for metric, values in times.items()}


def _device(gpu: str, sharing: str, tenants: Mapping[str, Any], most: int) -> PlanDevice:
    seats = {}
    for name, entry in tenants.items():
        limits = {key: {"limit_ms": _ms(limit)} for key, limit in entry["slo"].items()}
        runs = {key: value for key, value in entry.items() if key not in ("rate", "slo", "at_once")}
        engine = runs.get("software") == "vllm"
        seats[name] = {
            "rate_rps": float(entry["rate"].removesuffix("/s")),
            "at_once": 256 if engine else most,
            "software": runs.get("software", "eager"),
            "runs": runs,
            "expected": limits,
        }
    return PlanDevice.model_validate({"name": "d", "kind": gpu, "sharing": sharing, "tenants": seats})


def _ms(limit: str) -> float:
    return float(limit.removesuffix("ms")) if limit.endswith("ms") else 1e3 * float(limit.removesuffix("s"))


def planned(content: dict[str, Any], gpu: str, count: int, folder: Path) -> Plan | None:
    """The plan; None if it refuses."""
    path = folder / "tenants.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    try:
        return plan(path, f"{gpu}*{count}", seconds=SECONDS, minimise="devices", quiet=True)
    except ImpossibleObjectives:
        return None


def works(gpu: str, tenants: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> str | None:
    """A way in which one device keeps all objectives in the independent simulation; None: none was found."""
    engines = any("software" in entry for entry in tenants.values())
    for sharing, most in WAYS:
        if sharing == "scheduled" and engines:
            continue
        try:
            if keeps(_device(gpu, sharing, tenants, most), ranges):
                return f"{sharing}, {most} at once"
        except SharingUnavailable:
            continue
    return None


def needed(gpu: str, tenants: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]], most: int) -> int:
    """The fewest devices, below `most`, on which the independent simulation keeps every objective; else `most`."""
    random = np.random.default_rng(3)
    known: dict[tuple[str, ...], str | None] = {}
    names = list(tenants)
    for count in range(1, most):
        splits = {tuple(int(number) for number in random.integers(0, count, len(names))) for _ in range(SPLITS)}
        for split in splits:
            groups = [
                tuple(name for name, at in zip(names, split, strict=True) if at == number) for number in range(count)
            ]
            for group in filter(None, groups):
                if group not in known:
                    known[group] = works(gpu, {name: tenants[name] for name in group}, ranges)
                if known[group] is None:
                    break
            else:
                return count
    return most


def held(content: dict[str, Any], made: Plan, gpu: str, folder: Path) -> list[bool]:
    """For the first tenant with a factor below the largest: whether planning again confirms and refutes it."""
    if len(made.devices) != 1:
        return []
    for seat in made.devices[0].tenants:
        if seat.holds_to is None or not 1.1 < seat.holds_to < 4:
            continue
        answers = []
        for factor in FACTORS:
            entry = content["tenants"][seat.tenant]
            rate = f"{seat.rate_rps * seat.holds_to * factor:.4g}/s"
            again = {"tenants": {**content["tenants"], seat.tenant: {**entry, "rate": rate}}}
            replanned = planned(again, gpu, 1, folder)
            answers.append(replanned is not None and replanned.keeps_all)
        return [answers[0], not answers[1]]
    return []


def overlaps(made: Plan, path: Path) -> tuple[int, int]:
    """Objectives whose range in the plan and in its check overlap, and all."""
    ranges = {
        (device.name, seat.name, kept.objective): kept.time_ms.ends
        for device in made.devices
        for seat in device.tenants
        for kept in seat.kept
    }
    checked = [row for row in check_plan(path).tenants if row.tail_ms.lo is not None]
    both = [(row.tail_ms.ends, ranges[row.device, row.tenant, row.objective]) for row in checked]
    return sum(low <= high_2 and low_2 <= high for (low, high), (low_2, high_2) in both), len(both)


def tried(number: int, seed: int, folder: Path) -> dict[str, Any]:
    """An instance."""
    gpu = GPUS[number % len(GPUS)]
    content = instance(np.random.default_rng([seed, number]), gpu, number)
    tenants = content["tenants"]
    row: dict[str, Any] = {"instance": number, "gpu": gpu, "tenants": len(tenants)}
    ranges = ranges_of(_device(gpu, "mps", tenants, 8))
    single, path = planned(content, gpu, 1, folder), folder / "plan.yaml"
    made = single if single is not None and single.keeps_all else planned(content, gpu, 8, folder)
    if made is not single:
        row["refusal_refuted_by"] = works(gpu, tenants, ranges)
    if made is None or not made.keeps_all:
        return row | {"devices": None}
    made.write(path)
    row |= {"devices": len(made.devices), "objectives": 0, "missed": {}}
    for device in read_plan(path).devices:
        kept = seeds_kept(device, ranges_of(device))
        row["objectives"] += len(kept)
        row["missed"] |= {f"{device.sharing} {key}": seeds for key, seeds in kept.items() if seeds < LEAST_SEEDS}
    row["overlap"] = overlaps(made, path)
    row["needed"] = needed(gpu, tenants, ranges, len(made.devices))
    row["holds"] = held(content, made, gpu, folder)
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The shares."""
    promised = [row for row in rows if row["devices"]]
    refused = [row for row in rows if "refusal_refuted_by" in row]
    confirmed = [row["holds"] for row in promised if row["holds"]]
    return {
        "instances": len(rows),
        "planned": len(promised),
        "instances_kept": sum(not row["missed"] for row in promised),
        "objectives": sum(row["objectives"] for row in promised),
        "objectives_missed": sum(len(row["missed"]) for row in promised),
        "refused_on_one_device": len(refused),
        "refusals_right": sum(row["refusal_refuted_by"] is None for row in refused),
        "devices": sum(row["devices"] for row in promised),
        "devices_needed": sum(row["needed"] for row in promised),
        "ranges": sum(row["overlap"][1] for row in promised),
        "ranges_overlap": sum(row["overlap"][0] for row in promised),
        "holds_to_tried": len(confirmed),
        "holds_to_confirmed": sum(answers[0] for answers in confirmed),
        "holds_to_refuted": sum(answers[1] for answers in confirmed),
    }


def main(instances: int = 40, seed: int = 31, first: int = 0) -> None:
    """Print the shares."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + instances):
            rows.append(tried(number, seed, Path(folder)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps(summary(rows), indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
