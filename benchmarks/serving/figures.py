"""Tables of the results of `three_tenants.py`: means and spreads over seeds, ratios, the bound and the simulation.

python benchmarks/serving/figures.py RESULTS > page.md
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scenarios import LOADS, TIMES, arrivals

from cotenant.scheduling import Contract, EarliestDeadline, Fairness, Scheduler, Settings, TenantCosts
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, clairvoyant_bound, simulate
from cotenant.serving.processes.written import costs_in

FRONT_S = 1e-3
NOISE = 0.1
NAMES = {
    "cotenant-shares": "**cotenant, shares**",
    "cotenant-equal": "**cotenant, equal**",
    "edf-chunks": "EDF + shed + chunks",
    "edf": "EDF + shed",
    "triton": "Triton tuned",
    "bentoml": "BentoML tuned",
    "ray": "Ray Serve",
    "litserve": "LitServe",
    "mosec": "Mosec",
}
Row = dict[str, Any]


def table(rows: list[Row]) -> Iterable[str]:
    """One line per system: attainment by tenant, goodput with its spread, the worst tenant, idle time."""
    yield "| | " + " | ".join(LOADS) + " | S3, worst tenant | idle S2, S3 | steal | runs |"
    yield "|---|---|---|---|---|---|---|---|"
    for system, words in NAMES.items():
        own = [row for row in rows if row["system"] == system]
        if own:
            cells = [_cell([row for row in own if row["scenario"] == scenario]) for scenario in LOADS]
            worst = _spread([row["worst"] for row in own if row["scenario"] == "S3"])
            idle = ", ".join(_mean(row["idle"] for row in own if row["scenario"] == one) for one in ("S2", "S3"))
            steal = _mean(row["steal"] for row in own)
            yield f"| {words} | {' | '.join(cells)} | {worst} | {idle} | {steal} | {len(own)} |"


def ratios(rows: list[Row], system: str, other: str, scenario: str, figure: str) -> list[float]:
    """One system relative to another, by seed in the same slice."""
    found = {(row["system"], row["slice"], row["seed"]): row[figure] for row in rows if row["scenario"] == scenario}
    return [
        value / found[other, slice_, seed]
        for (name, slice_, seed), value in found.items()
        if name == system and found.get((other, slice_, seed))
    ]


def beside(row: Row, costs: dict[str, TenantCosts]) -> Row:
    """The clairvoyant bound on a run's arrivals, and the simulator's result for its costs."""
    spaced_s, seconds = row["spaced_s"], row["seconds"]
    plan = arrivals(row["scenario"], spaced_s, seconds=seconds, seed=row["seed"])
    coming = [Arrival(due, name) for due, name in plan]
    tenants = [(Contract(name, TIMES * spaced_s[name] - FRONT_S), costs[name]) for name in costs]
    fairness = Fairness.EQUAL if row["system"] == "cotenant-equal" else Fairness.SHARES
    policy = EarliestDeadline(chunks=row["system"] == "edf-chunks") if row["system"].startswith("edf") else None
    scheduler = Scheduler(tenants, Settings(fairness=fairness), policy)
    result = simulate(coming, scheduler, SimulatedDevice(costs, noise=NOISE, seed=row["seed"]))
    bound = clairvoyant_bound(coming, tenants, spaced_s, duration_s=seconds)
    return {
        "simulated": result.attainment(),
        "simulated_goodput": result.goodput(spaced_s, seconds),
        "bound": bound.goodput,
    }


def hour(row: Row) -> dict[str, TenantCosts]:
    """The costs measured by the server at its start."""
    return {name: costs_in(data) for name, data in row["costs"].items()}


def main(folder: Path) -> None:
    """All of it."""
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    print("\n".join(table(rows)), "\n")
    for scenario, figure, other in (
        ("S2", "goodput", "triton"),
        ("S2", "goodput", "edf"),
        ("S3", "goodput", "triton"),
        ("S3", "worst", "triton"),
        ("S3", "goodput", "edf-chunks"),
    ):
        found = ratios(rows, "cotenant-shares", other, scenario, figure)
        if found:
            print(f"- {scenario} {figure} over {NAMES[other]}: {_spread(found)} ({len(found)} pairs)")
    print("\n| | simulated b/c/g | measured b/c/g | goodput over the bound |\n|---|---|---|---|")
    for system in ("cotenant-shares", "cotenant-equal", "edf-chunks"):
        for scenario in LOADS:
            own = [row for row in rows if row["system"] == system and row["scenario"] == scenario]
            if own:
                found = [row | beside(row, hour(row)) for row in own]
                simulated = "/".join(_mean(row["simulated"][name] for row in found) for name in found[0]["asked"])
                over = _spread([row["goodput"] / row["bound"] for row in found])
                print(f"| {NAMES[system]}, {scenario} | {simulated} | {_parts(found)} | {over} |")
    spaced = defaultdict(list)
    for row in {row["slice"]: row for row in rows}.values():
        for name, cost in row["spaced_s"].items():
            spaced[name].append((1e3 * cost, row["close_s"][name] / cost))
    print("\nSpaced cost (ms) and back-to-back over spaced, by slice:")
    for name, seen in spaced.items():
        print(f"- {name}: " + ", ".join(f"{cost:.1f} ({part:.2f})" for cost, part in seen))


def _cell(rows: list[Row]) -> str:
    return f"{_parts(rows)}, {_spread([row['goodput'] for row in rows])}" if rows else ""


def _parts(rows: list[Row]) -> str:
    return "/".join(_mean(row["met"][name] / max(1, row["asked"][name]) for row in rows) for name in rows[0]["asked"])


def _mean(values: Iterable[float]) -> str:
    known = list(values)
    return f"{statistics.mean(known):.2f}" if known else "-"


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}" if values else ""
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
