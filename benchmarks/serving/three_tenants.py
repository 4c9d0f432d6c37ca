"""The three tenants of one core, S1 to S3, against a server that this script starts: costs, objectives, then load.

    python benchmarks/serving/three_tenants.py --seeds 10 --fairness shares

First a server with loose objectives gives the spaced cost of each tenant through the whole front end. Then a server
with objectives of three times that is started, and every scenario is offered seed by seed. One line of JSON for each;
the last lines are means and standard deviations. Steal is measured beside it: compare runs at equal steal.
"""

import argparse
import asyncio
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load import LOADS, offered, requests, spaced, steal_s

TIMES = 3.0
LOOSE_MS = {"bert": 30_000.0, "conv": 60_000.0, "gpt": 60_000.0}


def tenants_file(objectives_ms: dict[str, float], fairness: str) -> str:
    """The tenants with these objectives."""
    text = (Path(__file__).parent / "tenants.yaml").read_text()
    for name, objective in objectives_ms.items():
        text = re.sub(rf"(  {name}: .*?slo: )[^,]+", rf"\g<1>{objective:.3f}ms", text)
    return f"{text}fairness: {fairness}\n"


@contextmanager
def server(text: str, device: str) -> Iterator[tuple[str, int, int]]:
    """A server, for as long as it is needed: its host, its port and its process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tenants.yaml"
        file.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-m", "cotenant.cli.main", "serve", str(file), "--port", "0", "--device", device],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit("the server didn't start")
            host, _, port = url.removeprefix("http://").rpartition(":")
            yield host, int(port), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def row_of(answers: dict[str, list[tuple[float, int]]], costs: dict[str, float], seconds: float) -> dict[str, float]:
    """The part of each tenant's requests within its objective, and goodput at spaced cost."""
    met = {
        name: sum(status == 200 and late <= TIMES * costs[name] for late, status in seen)
        for name, seen in answers.items()
    }
    row = {name: met[name] / max(1, len(seen)) for name, seen in answers.items()}
    return row | {"goodput": sum(met[name] * costs[name] for name in met) / seconds}


def main(options: argparse.Namespace) -> None:
    """Measure costs, then all scenarios."""
    with server(tenants_file(LOOSE_MS, options.fairness), options.device) as (host, port, _):
        costs = asyncio.run(spaced(host, port, requests(host)))
    print(json.dumps({"spaced_ms": {name: round(1e3 * cost, 3) for name, cost in costs.items()}}))
    objectives = {name: 1e3 * TIMES * cost for name, cost in costs.items()}
    with server(tenants_file(objectives, options.fairness), options.device) as (host, port, _):
        wire = requests(host)
        for scenario, parts in LOADS.items():
            rates = {name: part / costs[name] for name, part in parts.items()}
            rows = []
            for seed in range(1, options.seeds + 1):
                stolen = steal_s()
                answers = asyncio.run(offered(host, port, wire, rates, seconds=options.seconds, seed=seed))
                rows.append(row_of(answers, costs, options.seconds) | {"steal": (steal_s() - stolen) / options.seconds})
                rounded = {name: round(value, 3) for name, value in rows[-1].items()}
                print(json.dumps({"scenario": scenario, "seed": seed, **rounded}), flush=True)
            means = {name: round(statistics.mean(row[name] for row in rows), 3) for name in rows[0]}
            spread = {name: round(statistics.stdev(row[name] for row in rows), 3) for name in rows[0] if len(rows) > 1}
            print(json.dumps({"scenario": scenario, "mean": means, "sd": spread}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--fairness", choices=("shares", "equal"), default="shares")
    parser.add_argument("--device", default="cpu:1", help="One core, as in the scenarios' definition.")
    main(parser.parse_args())
