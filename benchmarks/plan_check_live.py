"""Accuracy of `plan --check` on this machine: pairs of small models at 0.8 to 1.2 of the rate they can just keep.

    python benchmarks/plan_check_live.py OUT          measure the models first, then every instance
    python benchmarks/plan_check_live.py OUT RUN...   with the times of runs of the same models

The border is found by simulating the queues with the measured times; each plan is then checked and measured with
`cotenant run plan.yaml`. Prints one JSON document, and every row as soon as it is known. Measure on an otherwise idle
machine: about 12 minutes.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import cotenant
from cotenant.errors import DeviceBusy
from cotenant.planning.check import measured_device
from cotenant.planning.inputs.studies import write_study
from cotenant.store.compared import compare_plan
from cotenant.tenancy.plan_document import PlanDocument

INSTANCES = 10
MODELS = {
    "search": {"workload": "bert-base-mini", "seq": 64},
    "photos": {"workload": "resnet18-mini"},
    "recs": {"workload": "dlrm-mini"},
    "tags": {"workload": "distilbert-mini", "seq": 64},
}
RATE = 20.0
SEEDS = range(500, 503)
SECONDS = 20.0
PAIRS, SPACED = "120s", "60s"
"""Time to measure the models alone and in pairs, and after pauses."""
PATIENCE_S = 60
LIVE = ["blocks.min=3", "budget=55s", "window=4s"]


def run(file: Path, overrides: list[str], out: Path) -> Path:
    """A run of this study or plan; waits while another process measures on this machine."""
    for _ in range(PATIENCE_S):
        try:
            return Path(cotenant.run(file, overrides=overrides, out=out / "runs").folder)
        except DeviceBusy:
            time.sleep(1.0)
    raise SystemExit("the machine is in use")


def measured(out: Path) -> list[Path]:
    """Runs of every model alone and in pairs, and after pauses."""
    tenants, study = out / "tenants.yaml", out / "measure.yaml"
    entries = {name: {**entry, "rate": f"{RATE:g}/s"} for name, entry in MODELS.items()}
    tenants.write_text(yaml.safe_dump({"tenants": entries}), encoding="utf-8")
    pairs, spaced = write_study(tenants, "cpu", study)
    return [run(file, [f"budget={budget}"], out) for file, budget in ((pairs, PAIRS), (spaced, SPACED))]


def instance(random: np.random.Generator, runs: list[Path]) -> dict[str, Any]:
    """Two models at equal shares of their border, with limits of 5 to 15 service times."""
    names = sorted(random.choice(sorted(MODELS), 2, replace=False).tolist())
    seats = {
        name: {"tenant": name, "rate_rps": 1.0, "at_once": 1, "software": "eager", "runs": dict(MODELS[name])}
        for name in names
    }
    document = {
        "plan": 2,
        "risk": 0.1,
        "from": [str(run) for run in runs],
        "devices": [{"name": "cpu", "kind": "cpu", "sharing": "processes", "tenants": seats}],
    }
    plan = PlanDocument.model_validate(document)
    predictor = measured_device(plan, plan.devices[0], "benchmark")
    for place, seat in enumerate(seats.values()):
        service = predictor.solos[place, 1].mean_s
        limit = float(random.uniform(5, 15)) * service * 1e3
        ends = {"lower_ms": 0.0, "estimate_ms": limit, "upper_ms": limit}
        seat |= {"rate_rps": 1 / service, "expected": {"p99": {"limit_ms": limit, **ends}}}
    factor = border(predictor, list(seats.values())) * float(random.uniform(0.8, 1.2))
    for seat in seats.values():
        seat["rate_rps"] *= factor
    return document


def border(predictor: Any, seats: list[dict[str, Any]]) -> float:
    """The largest load of both at which each keeps 99 % of its requests within the limit."""
    low, high = 0.02, 1.0
    for _ in range(7):
        middle = float(np.sqrt(low * high))
        asked = [(place, 1, seat["rate_rps"] * middle) for place, seat in enumerate(seats)]
        kept = [
            [
                float((times <= seat["expected"]["p99"]["limit_ms"] / 1e3).mean())
                for times, seat in zip(found, seats, strict=True)
            ]
            for found in (
                predictor.simulate("processes", asked, [1.0, 1.0], end=1, seed=seed, seconds=SECONDS) for seed in SEEDS
            )
        ]
        low, high = (middle, high) if np.mean(kept, axis=0).min() >= 0.99 else (low, middle)
    return low


def measure(out: Path, runs: list[Path]) -> dict[str, Any]:
    """The check's answers and what was measured, by tenant."""
    random = np.random.default_rng(7)
    rows = []
    runs = runs or measured(out)
    for number in range(INSTANCES):
        document = instance(random, runs)
        plan = out / f"plan-{number}.yaml"
        plan.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        said = {one.tenant: one for one in cotenant.check_plan(plan).tenants}
        live = run(plan, LIVE, out)
        for one in compare_plan(plan, [live]).rows:
            checked = said[one.tenant]
            rows.append(
                {
                    "instance": number,
                    "tenant": one.tenant,
                    "said": checked.verdict,
                    "attained_simulated": [
                        round(end, 4) for end in (checked.attained.lo, checked.attained.est, checked.attained.hi)
                    ],
                    "attained_live": one.attained,
                    "requests": one.requests,
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    judged = {
        verdict: [row["attained_live"] >= 0.99 for row in rows if row["said"] == verdict and row["requests"]]
        for verdict in ("kept", "missed", "can't tell")
    }
    return {
        "instances": INSTANCES,
        "tenants": len(rows),
        "kept": len(judged["kept"]),
        "kept_truly": sum(judged["kept"]),
        "missed": len(judged["missed"]),
        "missed_truly": sum(not one for one in judged["missed"]),
        "undecided": len(judged["can't tell"]),
        "rows": rows,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(measure(folder, [Path(run) for run in sys.argv[2:]]), indent=2))
