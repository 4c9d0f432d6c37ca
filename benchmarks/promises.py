"""Random instances of plans against an independent simulation.

    python -m benchmarks.promises [INSTANCES] [SEED] [FIRST]

Each instance has 3 to 8 catalogue tenants, one in three a language-model engine among them, at loads of 0.5 to 1.2 of a
GPU. Prints a line per instance on stderr and one JSON document.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.independent_simulation import LEAST_SEEDS, keeps, ranges_of, seeds_kept, times_ms
from cotenant.api.plan import Plan, plan
from cotenant.errors import ImpossibleObjectives, SharingUnavailable
from cotenant.planning.check import check_plan
from cotenant.tenancy.plan_document import PlanDevice, read_plan

WORKLOADS = ("distilbert", "bert-base", "bert-large", "resnet18", "resnet50", "mobilenet-v2", "vit-b-16", "gpt2")
ENGINE = {"workload": "llama-3.2-1b", "software": "vllm", "mode": "generate", "seq": 256, "tokens": 64}
GPUS = ("sim:a100-sxm4-80gb", "sim:t4", "sim:l40s")
SECONDS = 10.0
"""For each plan; most are done earlier."""
FACTORS = (0.95, 1.1)
WAYS = (("processes", 1), ("processes", 8), ("mps", 1), ("mps", 4), ("mps", 8), ("scheduled", 8))
"""How the independent simulation may share a device, and the most requests at once."""
SPLITS = 12
"""Divisions of the tenants over fewer devices that are tried."""


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
