"""Tables of the results of `three_tenants.py`: means and spreads over seeds, ratios, the bound and the simulation.

    python benchmarks/serving/figures.py RESULTS            print them
    python benchmarks/serving/figures.py RESULTS --write    write docs/serve-live.md and docs/data/serve-live.csv

Runs during which anything else used more than a tenth of a core are left out.
"""

import argparse
import csv
import io
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replay import empty_s, planned_costs, replayed_device
from scenarios import LOADS, TIMES, arrivals

from cotenant.scheduling import Contract, EarliestDeadline, Fairness, Scheduler, Settings
from cotenant.scheduling.simulation import Arrival, clairvoyant_bound, simulate

FRONT_S = 1e-3
HOP_S = 2e-4
"""A message between the scheduler and a worker."""
QUIET = 0.1
"""Largest share of a core for other processes during a run that counts."""
DOCS = Path(__file__).resolve().parents[2] / "docs"
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
KEPT = "\n## Overhead and faults\n"
"""From here on the page is written by hand, and kept."""
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


def beside(row: Row) -> Row:
    """The clairvoyant bound on a run's arrivals, and the simulator's result for its costs and its core's speed."""
    costs = planned_costs(row)
    spaced_s, seconds = row["spaced_s"], row["seconds"]
    plan = arrivals(row["scenario"], spaced_s, seconds=seconds, seed=row["seed"])
    coming = [Arrival(due, name) for due, name in plan]
    tenants = [(Contract(name, TIMES * spaced_s[name] - FRONT_S), costs[name]) for name in costs]
    fairness = Fairness.EQUAL if row["system"] == "cotenant-equal" else Fairness.SHARES
    policy = EarliestDeadline(chunks=row["system"] == "edf-chunks") if row["system"].startswith("edf") else None
    scheduler = Scheduler(tenants, Settings(fairness=fairness), policy)
    result = simulate(coming, scheduler, replayed_device(row), delay_s=HOP_S)
    bound = clairvoyant_bound(coming, tenants, spaced_s, duration_s=seconds)
    return {
        "simulated": result.attainment(),
        "empty": empty_s(row) / seconds,
        "simulated_idle": 1 - result.busy_s / seconds,
        "simulated_goodput": result.goodput(spaced_s, seconds),
        "bound": bound.goodput,
    }


def page(rows: list[Row], left_out: int) -> Iterable[str]:
    """All tables."""
    seconds = rows[0]["seconds"]
    yield HEAD.format(seconds=f"{seconds:g}", runs=len(rows), left_out=left_out)
    yield from table(rows)
    yield "\nAt equal seeds, in the same hour (mean and standard deviation over seeds):\n"
    for scenario, figure, other in (
        ("S2", "goodput", "triton"),
        ("S2", "goodput", "edf"),
        ("S3", "goodput", "triton"),
        ("S3", "worst", "triton"),
        ("S3", "goodput", "edf-chunks"),
    ):
        found = ratios(rows, "cotenant-shares", other, scenario, figure)
        if found:
            what = "goodput" if figure == "goodput" else "attainment of the worst tenant"
            yield f"- {scenario}, {what}: {_spread(found)} times {NAMES[other]} ({len(found)} pairs)"
    yield "\n## Against the simulator and the best possible\n"
    yield SIMULATED
    yield (
        "| | simulated b/c/g | measured b/c/g | goodput over the clairvoyant bound | "
        "idle: measured, nothing waited, simulated |"
    )
    yield "|---|---|---|---|---|"
    for system in ("cotenant-shares", "cotenant-equal", "edf-chunks"):
        for scenario in LOADS:
            own = [row for row in rows if row["system"] == system and row["scenario"] == scenario]
            if own:
                found_rows = [row | beside(row) for row in own]
                simulated = "/".join(
                    _mean(row["simulated"][name] for row in found_rows) for name in found_rows[0]["asked"]
                )
                over = _spread([row["goodput"] / row["bound"] for row in found_rows])
                kinds = ("idle", "empty", "simulated_idle")
                idle = ", ".join(_mean(row[kind] for row in found_rows) for kind in kinds)
                yield f"| {NAMES[system]}, {scenario} | {simulated} | {_parts(found_rows)} | {over} | {idle} |"
    spaced = defaultdict(list)
    for row in {row["slice"]: row for row in rows}.values():
        for name, cost in row["spaced_s"].items():
            spaced[name].append((1e3 * cost, row["close_s"][name] / cost))
    yield "\nSpaced cost in ms, and back to back over spaced, of each slice:\n"
    for name, seen in spaced.items():
        yield f"- {name}: " + ", ".join(f"{cost:.1f} ({part:.2f})" for cost, part in seen)


HEAD = """# Three tenants on one core, beside other servers

Written by `python benchmarks/serving/figures.py RESULTS --write` from {runs} runs of `three_tenants.py`, {seconds}
s each ({left_out} more were left out, since something else used the machine). Every run is in
[serve-live.csv](data/serve-live.csv).

BERT (4 layers, 64 tokens), ResNet-18 (160 px) and GPT (64 tokens in, 24 out) share one core; objectives are three
times their spaced solo times. Arrivals are Poisson: **S1** asks for 20 % of the core each, in **S2** ResNet floods
it with 120 % beside 15 % of the others, **S3** asks for 45 % each. A cell has the share of requests within their
objective, by tenant (BERT/ResNet/GPT), and the goodput: device seconds of requests in time per second, at spaced
cost, with its standard deviation over seeds. Peers run in their own environments with the same weights; how they
are set up is in `benchmarks/serving/peers/README.md`. EDF is this server with another policy.
"""

SIMULATED = """The simulator runs the same scheduler on the same arrivals, with the costs that the server measured at
its start; its device has the times and the changing speed of the chunks of that very run. Time counts as "nothing
waited" if the scheduler had no request left to run: objectives are short, so an overloaded device sheds what is late
and then waits for the next arrival.
"""


def as_csv(rows: list[Row]) -> str:
    """One line per run."""
    out = io.StringIO()
    names = list(rows[0]["asked"])
    plain = ("system", "scenario", "seed", "seconds", "slice", "goodput", "worst", "idle", "steal", "foreign")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*plain, *(f"{what}_{name}" for name in names for what in ("asked", "served", "met", "spaced_ms"))])
    for row in rows:
        parts = [
            value
            for name in names
            for value in (
                row["asked"][name],
                row["served"][name],
                row["met"][name],
                f"{1e3 * row['spaced_s'][name]:.3f}",
            )
        ]
        figures = [f"{row[name]:.4f}" if isinstance(row[name], float) else row[name] for name in plain]
        writer.writerow([*figures, *parts])
    return out.getvalue()


def main(folder: Path, *, write: bool) -> None:
    """Read the runs; print or write the page."""
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    quiet = [row for row in rows if row["foreign"] < QUIET]
    text = "\n".join(page(quiet, len(rows) - len(quiet))) + "\n"
    if write:
        kept = (DOCS / "serve-live.md").read_text().partition(KEPT)
        (DOCS / "serve-live.md").write_text(text + "".join(kept[1:]))
        (DOCS / "data" / "serve-live.csv").write_text(as_csv(quiet))
    else:
        print(text)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="The folder given to three_tenants.py as --out.")
    parser.add_argument("--write", action="store_true", help="Write docs/serve-live.md and its data.")
    options = parser.parse_args()
    main(options.folder, write=options.write)
