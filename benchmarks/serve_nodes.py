"""Plans served on Ray nodes of this machine: what a front end adds to requests, and the wait after a lost node.

What it adds is measured on three simulated devices, one actor on each node, all asked at once: their clients ask the
devices' servers and a front end in turns. Simulated devices sleep, so that three of them have two cores to themselves.
"""

import http.client
import json
import secrets
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ray_nodes import NODES, RayNodes, ray_nodes

THREE = """
plan: {}
devices:
  - {name: "sim:t4", tenants: {a: {runs: {workload: bert-base}, expected: {p99: {limit_ms: 20000}}}}}
  - {name: "sim:l4", tenants: {b: {runs: {workload: bert-base}, expected: {p99: {limit_ms: 20000}}}}}
  - {name: "sim:rtx-a5000", tenants: {c: {runs: {workload: bert-base}, expected: {p99: {limit_ms: 20000}}}}}
"""
MODEL = "{workload: bert-base-mini, seq: 16}"
PLAN = f"""
plan: {{}}
devices:
  - {{name: {NODES[0]}/cpu, tenants: {{a: {{runs: {MODEL}, expected: {{p99: {{limit_ms: 20000}}}}}}}}}}
  - {{name: {NODES[1]}/cpu, tenants: {{b: {{runs: {MODEL}, expected: {{p99: {{limit_ms: 20000}}}}}}}}}}
"""
"""The third node's CPU is left free."""
BODY = json.dumps(
    {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}
).encode()
TURNS, TURN, WARM = 30, 20, 2
PAUSE_S = 0.05


def measure() -> dict[str, Any]:
    """Both, on one cluster of three nodes."""
    with ray_nodes(len(NODES)) as nodes:
        return measure_on(nodes)


def measure_on(nodes: RayNodes) -> dict[str, Any]:
    """Both, on a cluster that loses a node by it."""
    plan = nodes.home / "plan.yaml"
    plan.write_text(THREE)
    command = [sys.executable, __file__, nodes.address, str(plan)]
    times = subprocess.run(command, env=nodes.env, stdout=subprocess.PIPE, check=True)
    plan.write_text(PLAN)
    served = nodes.cotenant("serve", plan, "--on", nodes.address, "--port", 0, "--json")
    said = _lines(served)
    lost = _lost(nodes, _first_json(served)["urls"][NODES[0]], said)
    served.terminate()
    served.wait(60)
    return {**json.loads(times.stdout), **lost}


def added(on: str, plan: Path) -> dict[str, Any]:
    """What the front end of the first node adds to requests of three devices, as a driver that has their secret."""
    from cotenant.fleet.cluster import connected
    from cotenant.fleet.serving.fence import EPOCH, SECRET
    from cotenant.fleet.serving.keeper import Keeper
    from cotenant.fleet.serving.placing import place
    from cotenant.fleet.serving.served_fleet import THREADS, Fleet
    from cotenant.fleet.surveying import survey

    secret = secrets.token_hex(16)
    front = {"port": 0, "tls_cert": None, "tls_key": None, "admin_key": None, "locked": False}
    with connected(on) as cluster:
        found = survey(cluster, kind=Keeper, calls=THREADS)
        placements, spare = place(plan, None, found.nodes)
        fleet = Fleet(cluster, spare, secret=secret, drain_s=1.0, owner="a benchmark", say=sys.stderr.write)
        try:
            fleet.start(placements)
            first = found.nodes[0].node
            fleet.open_front(first, found.agents[first.name], {**front, "host": first.address})
            fleet.route()
            clients = [
                Client(
                    next(iter(one.placement.file.tenants)),
                    {"direct": one.url, "front end": fleet.urls[first.name]},
                    {"direct": {SECRET: secret, EPOCH: str(one.epoch)}, "front end": {}},
                )
                for one in fleet.servers.values()
            ]
            begin = time.monotonic()
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            rate = sum(client.asked for client in clients) / (time.monotonic() - begin)
        finally:
            fleet.kill()
    p50 = {way: 1e3 * statistics.median([s for one in clients for s in one.times[way]]) for way in clients[0].times}
    return {
        "devices": len(clients),
        "requests": sum(len(client.times["direct"]) for client in clients),
        "requests_per_s": rate,
        "p50_ms": p50,
        "added_ms": [1e3 * client.added_s() for client in clients],
    }


class Client(threading.Thread):
    """Asks for one tenant, without pause, in turns that all clients begin together."""

    together = threading.Barrier(len(NODES))

    def __init__(self, tenant: str, urls: dict[str, str], headers: dict[str, dict[str, str]]) -> None:
        super().__init__()
        self._tenant, self._headers = tenant, headers
        self._connections = {way: http.client.HTTPConnection(urlsplit(url).netloc) for way, url in urls.items()}
        self.times: dict[str, list[float]] = {way: [] for way in urls}
        self.asked = 0

    def added_s(self) -> float:
        """Median through the front end, minus that of the device's server."""
        return statistics.median(self.times["front end"]) - statistics.median(self.times["direct"])

    def run(self) -> None:
        """Ask."""
        for turn in range(WARM + TURNS):
            for way, connection in self._connections.items():
                self.together.wait(60)
                for _ in range(TURN):
                    seconds, status = _ask(connection, self._tenant, self._headers[way])
                    assert status == 200, (self._tenant, way, status)
                    self.asked += 1
                    if turn >= WARM:
                        self.times[way].append(seconds)


def _ask(client: http.client.HTTPConnection, tenant: str, headers: dict[str, str] | None = None) -> tuple[float, int]:
    begin = time.perf_counter()
    client.request("POST", f"/v2/models/{tenant}/infer", BODY, {"Content-Type": "application/json", **(headers or {})})
    answer = client.getresponse()
    answer.read()
    return time.perf_counter() - begin, answer.status


def _lost(nodes: RayNodes, url: str, said: list[tuple[float, str]]) -> dict[str, Any]:
    """Kill the node of tenant `b`, and ask for it until another device answers."""
    client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    _, status = _ask(client, "b")
    assert status == 200, status
    nodes.lose(NODES[1])
    begin = last = time.monotonic()
    refused = answered = 0
    moved = None
    while moved is None or time.monotonic() < moved + 1:
        _, status = _ask(client, "b")
        if status == 200:
            answered += 1
        else:
            refused += 1
            last = time.monotonic()
        moved = next((at for at, line in said if line.startswith("b: served by")), None)
        time.sleep(PAUSE_S)
    noticed = next(at for at, line in said if "is lost" in line and "front end" not in line)
    return {
        "lost_s": last - begin if refused else 0.0,
        "noticed_s": noticed - begin,
        "load_s": moved - noticed,
        "refused": refused,
        "answered": answered,
    }


def _lines(process: subprocess.Popen[str]) -> list[tuple[float, str]]:
    """What a command says on its standard error, each line with its time; grows while it runs."""
    said: list[tuple[float, str]] = []

    def read() -> None:
        nonlocal said
        for line in process.stderr or ():
            said += [(time.monotonic(), line)]

    threading.Thread(target=read, daemon=True).start()
    return said


def _first_json(process: subprocess.Popen[str]) -> dict[str, Any]:
    text = ""
    for line in process.stdout or ():
        text += line
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            continue
        return found
    sys.exit(f"{process.args} printed {text!r}")


if __name__ == "__main__":
    print(json.dumps(added(sys.argv[1], Path(sys.argv[2])) if sys.argv[1:] else measure(), indent=2))
