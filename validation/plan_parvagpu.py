"""ParvaGPU's six scenarios planned from its own measurements: the number of A100s, with proof of optimality.

Its rules: one model per MIG instance, with 1 to 5 processes under MPS; the latency of a request below 0.9 x SLO / 2;
the instances of a model together serve its rate.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cotenant.planning.mixes.cut import Covered, CutGpu, cover
from cotenant.planning.mixes.mig import MigGeometry
from validation.reading import count, number, read_table

MEASURED = "sharing/a100_mig_mps_parvagpu.csv"
SCENARIOS = "sharing/parvagpu_scenarios.csv"
HEADROOM = 0.9 / 2
"""Fraction of the SLO: the other half is for waiting."""
SECONDS = 10.0

_GIB = 2**30
A100_80 = MigGeometry.of(
    7,
    8,
    {
        "1g.10gb": (1, 1, int(9.5 * _GIB)),
        "2g.20gb": (2, 2, int(19.5 * _GIB)),
        "3g.40gb": (3, 4, int(39.25 * _GIB)),
        "4g.40gb": (4, 4, int(39.25 * _GIB)),
        "7g.80gb": (7, 8, int(78.5 * _GIB)),
    },
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Models with their rates and SLOs."""

    number: int
    rates: Mapping[str, float]
    slo_ms: Mapping[str, float]
    theirs: int
    """GPUs used by ParvaGPU's planner."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A scenario."""

    scenario: int
    theirs: int
    ours: int
    bound: float
    seconds: float


def scenarios(data: Path) -> tuple[Scenario, ...]:
    """As in the source's scripts."""
    found: dict[int, list[Mapping[str, str]]] = defaultdict(list)
    for row in read_table(data, SCENARIOS, ("scenario", "model", "rate_per_s", "slo_ms", "gpus_of_parvagpu")):
        found[count(row["scenario"], SCENARIOS, "scenario")].append(row)
    return tuple(
        Scenario(
            name,
            {row["model"]: number(row["rate_per_s"], SCENARIOS, "rate_per_s") for row in rows},
            {row["model"]: number(row["slo_ms"], SCENARIOS, "slo_ms") for row in rows},
            count(rows[0]["gpus_of_parvagpu"], SCENARIOS, "gpus_of_parvagpu"),
        )
        for name, rows in sorted(found.items())
    )


def served(data: Path, scenario: Scenario) -> np.ndarray:
    """Models x instance sizes: the highest rate of any batch and number of processes within the SLO."""
    models = list(scenario.rates)
    sizes = [profile.compute for profile in A100_80.profiles]
    best = np.zeros((len(models), len(sizes)))
    columns = ("model", "mig_gpcs", "batch", "n_procs_mps", "throughput_per_proc_or_reported", "latency_s")
    for row in read_table(data, MEASURED, columns):
        if row["model"] not in scenario.rates or not row["latency_s"]:
            continue  # it ran out of memory
        each = number(row[columns[4]], MEASURED, columns[4])
        latency_s = number(row["latency_s"], MEASURED, "latency_s")
        if each <= 0 or latency_s * 1e3 >= HEADROOM * scenario.slo_ms[row["model"]]:
            continue
        cell = models.index(row["model"]), sizes.index(count(row["mig_gpcs"], MEASURED, "mig_gpcs"))
        best[cell] = max(best[cell], each * count(row["n_procs_mps"], MEASURED, "n_procs_mps"))
    return best


def planned(data: Path, scenario: Scenario, *, seconds: float = SECONDS) -> Covered | None:
    """The plan of a scenario."""
    gpus = CutGpu(A100_80, price=1.0, available=100, rates=served(data, scenario))
    return cover([gpus], np.array(list(scenario.rates.values())), seconds=seconds)


def compare(data: Path) -> tuple[Planned, ...]:
    """All six."""
    rows = []
    for scenario in scenarios(data):
        begin = time.perf_counter()
        plan = planned(data, scenario)
        took = time.perf_counter() - begin
        assert plan is not None, f"scenario {scenario.number} has no plan"
        rows.append(Planned(scenario.number, scenario.theirs, len(plan.gpus), plan.bound, took))
    return tuple(rows)


if __name__ == "__main__":
    sys.stdout.write(json.dumps([asdict(row) for row in compare(Path(sys.argv[1]))], indent=2))
