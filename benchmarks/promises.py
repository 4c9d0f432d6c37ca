"""Random instances of plans against an independent simulation.

    python -m benchmarks.promises [INSTANCES] [SEED]

For each instance, 3 to 8 catalogue tenants on one kind of GPU at loads of 0.5 to 1.2 of a device. What `plan` promises
is simulated again with other seeds and with service times drawn from the validated ranges; the instance counts as kept
if every objective is. `holds to` is confirmed by planning at 0.95 of it and refuted at 1.1. Prints one JSON document.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cotenant.api.plan import Plan, plan
from cotenant.errors import ImpossibleObjectives
from cotenant.planning.check_simulated import device_simulation
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.tenancy.plan_document import PlanDevice, read_plan

WORKLOADS = ("distilbert", "bert-base", "bert-large", "resnet18", "resnet50", "mobilenet-v2", "vit-b-16", "gpt2")
GPUS = ("sim:a100-sxm4-80gb", "sim:t4", "sim:l40s")
SEEDS = range(501, 511)
FACTORS = (0.95, 1.1)


def instance(random: np.random.Generator, gpu: str) -> dict[str, Any]:
    """Tenants that ask for 0.5 to 1.2 of a device together, with limits of 4 to 12 times a request alone."""
    count = int(random.integers(3, 9))
    names = [str(random.choice(WORKLOADS)) for _ in range(count)]
    alone = {name: alone_s(name, gpu) for name in set(names)}
    parts = random.dirichlet(np.ones(count)) * random.uniform(0.5, 1.2)
    return {
        "tenants": {
            f"t{place}": {
                "workload": name,
                "rate": f"{max(part / alone[name], 0.5):.3g}/s",
                "at_once": "1..8",
                "slo": {"p99": f"{1e3 * alone[name] * random.uniform(4, 12):.3g}ms"},
            }
            for place, (name, part) in enumerate(zip(names, parts, strict=True))
        }
    }


def alone_s(workload: str, gpu: str) -> float:
    """Time of a request alone."""
    seat = {"rate_rps": 1.0, "runs": {"workload": workload}}
    device = PlanDevice.model_validate({"name": "d", "kind": gpu, "sharing": "processes", "tenants": {"t": seat}})
    simulation, _ = device_simulation(device, 0.1)
    return simulation.profile(gpu, 0, 1, "", float("nan")).alone_ms / 1e3


def kept(device: PlanDevice, random: np.random.Generator) -> list[bool]:
    """By objective: kept over all seeds, each with service times drawn once per tenant from their ranges."""
    simulation, mix = device_simulation(device, 0.1)
    rough = ClosedForm(simulation)
    low, high = rough.errors.factors(mix, closed=False)
    # The ends are exceeded in a tenth of the cases each.
    spread = (np.log(high[0]) - np.log(low[0])) / 2 / 1.2816
    found: dict[tuple[int, str], list[float]] = {}
    for seed in SEEDS:
        factors = np.exp((np.log(high[0]) + np.log(low[0])) / 2 + spread * random.normal(size=spread.size))
        times = EnginePredictor(simulation, rough, seed=seed).request_times(mix, factors)
        for place, seat in enumerate(device.tenants.values()):
            for objective in seat.objectives:
                share = times[place][objective.metric].within(objective.limit_ms / 1e3)
                found.setdefault((place, objective.label), []).append(share - objective.quantile)
    return [float(np.median(shares)) >= 0 for shares in found.values()]


def planned(content: dict[str, Any], gpu: str, count: int, folder: Path) -> Plan | None:
    """The plan; None if it refuses."""
    path = folder / "tenants.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    try:
        return plan(path, f"{gpu}*{count}", seconds=10, minimise="devices", quiet=True)
    except ImpossibleObjectives:
        return None


def held(content: dict[str, Any], made: Plan, gpu: str, folder: Path) -> list[bool]:
    """For the first tenant with a factor below the largest: whether planning again confirms and refutes it."""
    devices = [device for device in made.devices if len(made.devices) == 1]
    for seat in (seat for device in devices for seat in device.tenants):
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


def main() -> None:
    """Print the shares."""
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    random = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 31)
    rows = []
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        for number in range(instances):
            gpu = GPUS[number % len(GPUS)]
            content = instance(random, gpu)
            made = planned(content, gpu, 8, folder)
            row: dict[str, Any] = {"gpu": gpu, "tenants": len(content["tenants"]), "planned": made is not None}
            if made is not None and made.keeps_all:
                made.write(folder / "plan.yaml")
                objectives = [ok for device in read_plan(folder / "plan.yaml").devices for ok in kept(device, random)]
                row |= {"devices": len(made.devices), "objectives": len(objectives), "kept": sum(objectives)}
                row["holds"] = held(content, made, gpu, folder)
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    promised = [row for row in rows if "kept" in row]
    confirmed = [row["holds"] for row in promised if row["holds"]]
    print(
        json.dumps({
            "instances": instances,
            "planned": len(promised),
            "instances_kept": sum(row["kept"] == row["objectives"] for row in promised),
            "objectives": sum(row["objectives"] for row in promised),
            "objectives_kept": sum(row["kept"] for row in promised),
            "holds_to_tried": len(confirmed),
            "holds_to_confirmed": sum(answers[0] for answers in confirmed),
            "holds_to_refuted": sum(answers[1] for answers in confirmed),
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
