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

from baselines import EarliestDeadline, clairvoyant_bound
from replay import empty_s, own_costs, planned_costs, replayed_device
from rounds import QUIET
from scenarios import LOADS, TIMES, arrivals

from cotenant.scheduling import Contract, DeviceScheduler, Fairness, Settings
from cotenant.scheduling.simulation import Arrival, simulate

FRONT_S = 1e-3
HOP_S = 2e-4
"""A message between the scheduler and a worker."""
MATCHED = 0.01
"""Largest difference in stolen time, as a share of the core, between two runs that are compared."""
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
    yield "| | " + " | ".join(LOADS) + " | S3, worst tenant | idle S2, S3 | steal | seeds |"
    yield "|---|---|---|---|---|---|---|---|"
    for system, words in NAMES.items():
        own = [row for row in rows if row["system"] == system]
        if own:
            cells = [_cell([row for row in own if row["scenario"] == scenario]) for scenario in LOADS]
            worst = _spread([row["worst"] for row in own if row["scenario"] == "S3"])
            idle = ", ".join(_mean(row["idle"] for row in own if row["scenario"] == one) for one in ("S2", "S3"))
            steal = _mean(row["steal"] for row in own)
            seeds = len({row["seed"] for row in own})
            yield f"| {words} | {' | '.join(cells)} | {worst} | {idle} | {steal} | {seeds} |"


def ratios(rows: list[Row], system: str, other: str, scenario: str, figure: str) -> list[float]:
    """One system relative to another, by seed in the same slice, if about as much time was stolen from both."""
    found = {(row["system"], row["slice"], row["seed"]): row for row in rows if row["scenario"] == scenario}
    pairs = [
        (row, found[other, slice_, seed])
        for (name, slice_, seed), row in found.items()
        if name == system and (other, slice_, seed) in found
    ]
    return [
        one[figure] / two[figure] for one, two in pairs if two[figure] and abs(one["steal"] - two["steal"]) <= MATCHED
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
    scheduler = DeviceScheduler(tenants, Settings(fairness=fairness), policy)
    result = simulate(coming, scheduler, replayed_device(row), delay_s=HOP_S)
    actual = [(contract, own_costs(row)[contract.tenant]) for contract, _ in tenants]
    bound, batched = (
        clairvoyant_bound(coming, actual, spaced_s, duration_s=seconds, batching=batching) for batching in (False, True)
    )
    return {
        "simulated": result.attainment(),
        "empty": empty_s(row) / seconds,
        "simulated_idle": 1 - result.busy_s / seconds,
        "simulated_goodput": result.goodput(spaced_s, seconds),
        "bound": bound.goodput,
        "batched_bound": batched.goodput,
    }


def page(rows: list[Row], left_out: int) -> Iterable[str]:
    """All tables."""
    seconds = rows[0]["seconds"]
    yield HEAD.format(seconds=f"{seconds:g}", runs=len(rows), left_out=left_out)
    yield from table(rows)
    yield COMPARED
    for scenario, figure, other, aim in AIMS:
        found = ratios(rows, "cotenant-shares", other, scenario, figure)
        if found:
            what = "goodput" if figure == "goodput" else "attainment of the worst tenant"
            yield f"- {scenario}, {what}: {_spread(found)} times {NAMES[other]} (aim {aim:g}; {len(found)} pairs)"
    yield "\n## Against the simulator and the best possible\n"
    yield SIMULATED
    yield (
        "| | simulated b/c/g | measured b/c/g | goodput over the bound | with batching | "
        "idle: measured, nothing waited, simulated |"
    )
    yield "|---|---|---|---|---|---|"
    for system in ("cotenant-shares", "cotenant-equal", "edf-chunks", "edf"):
        for scenario in LOADS:
            own = [row for row in rows if row["system"] == system and row["scenario"] == scenario]
            if own:
                yield _against([row | beside(row) for row in own])
    spaced = defaultdict(list)
    for row in {row["slice"]: row for row in rows}.values():
        for name, cost in row["spaced_s"].items():
            spaced[name].append((1e3 * cost, row["close_s"][name] / cost))
    yield "\nSpaced cost in ms, and back to back over spaced, of each slice:\n"
    for name, seen in spaced.items():
        yield f"- {name}: " + ", ".join(f"{cost:.1f} ({part:.2f})" for cost, part in seen)


def _against(rows: list[Row]) -> str:
    """Runs of one system and scenario beside their simulation and bound."""
    simulated = "/".join(_mean(row["simulated"][name] for row in rows) for name in rows[0]["asked"])
    over, batched = (_spread([row["goodput"] / row[bound] for row in rows]) for bound in ("bound", "batched_bound"))
    idle = ", ".join(_mean(row[kind] for row in rows) for kind in ("idle", "empty", "simulated_idle"))
    what = f"{NAMES[rows[0]['system']]}, {rows[0]['scenario']}"
    return f"| {what} | {simulated} | {_parts(rows)} | {over} | {batched} | {idle} |"


AIMS = (
    ("S2", "goodput", "triton", 1.9),
    ("S2", "goodput", "edf", 1.1),
    ("S3", "goodput", "triton", 1.15),
    ("S3", "worst", "triton", 2.0),
    ("S3", "goodput", "edf-chunks", 1.1),
)

HEAD = """# Three tenants on one core, beside other servers

Written by `python benchmarks/serving/figures.py RESULTS --write` from {runs} runs of `three_tenants.py`, {seconds}
s each. {left_out} more were left out: something else used the machine, or the run was repeated. Every run is in
[serve-live.csv](data/serve-live.csv).

BERT (4 layers, 64 tokens), ResNet-18 (160 px) and GPT (64 tokens in, 24 out) share one core; objectives are three
times their spaced solo times. Arrivals are Poisson: **S1** asks for 20 % of the core each, in **S2** ResNet floods
it with 120 % beside 15 % of the others, **S3** asks for 45 % each. A cell has the share of requests within their
objective, by tenant (BERT/ResNet/GPT), and the goodput: device seconds of requests in time per second, at spaced
cost, with its standard deviation over seeds. Aims were .97 for each tenant in S1, .96 and .94 for BERT and GPT in S2,
.70 for the worst tenant in S3 with `fairness: equal`, and at most .05 of idle time in S2 and S3. Peers run in their own
environments with the same weights; how they are set up is in `benchmarks/serving/peers/README.md`. EDF is this server
with another policy. Systems with fewer seeds took part in every few rounds only.
"""

COMPARED = """
cotenant with shares, at equal seeds, in the same few minutes, and with stolen time within .01 of the core of each other
(mean and standard deviation over seeds):
"""

SIMULATED = """The simulator runs the same scheduler on the same arrivals, with the costs that the server measured at
its start; its device has the times and the changing speed of the chunks of that very run. The clairvoyant bound is the
most that any schedule could have served in time with the median times of those chunks, without batches and with them
(aim in S3: .88 of the former). Time counts as "nothing waited" if the scheduler had no request left to run: objectives
are short, so an overloaded device sheds what is late and then waits for the next arrival.
"""


def as_csv(rows: list[Row]) -> str:
    """One line per run."""
    out = io.StringIO()
    names = list(rows[0]["asked"])
    plain = ("system", "scenario", "seed", "seconds", "slice", "goodput", "worst", "idle", "steal", "foreign")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *plain,
            "slowdown_before",
            "slowdown_after",
            *(f"{what}_{name}" for name in names for what in ("asked", "served", "met", "spaced_ms")),
        ]
    )
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
        writer.writerow([*figures, *(f"{one:.3f}" for one in row["slowdown"]), *parts])
    return out.getvalue()


def read(folder: Path) -> list[Row]:
    """All runs so far."""
    file = folder / "runs.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def counted(rows: Iterable[Row]) -> list[Row]:
    """The latest quiet run of each system, scenario and seed."""
    latest = {(row["system"], row["scenario"], row["seed"]): row for row in rows if row["foreign"] < QUIET}
    return list(latest.values())


def main(folder: Path, *, write: bool) -> None:
    """Read the runs; print or write the page."""
    rows = read(folder)
    quiet = counted(rows)
    if not quiet:
        raise SystemExit(f"{folder} has no run that counts")
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
