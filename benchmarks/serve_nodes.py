"""A plan served on Ray nodes of this machine: what a front end adds to a request, and the wait after a lost node.

What it adds is measured on the processes that a node runs, without Ray: requests to a device's server and through a
front end take turns, one at a time.
"""

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from cotenant.fleet.serving.fence import EPOCH, SECRET
from cotenant.serving.tenants_file import TenantsFile
from ray_nodes import NODES, RayNodes, ray_nodes

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
REQUESTS, TURN = 600, 20
PAUSE_S = 0.05


def measure() -> dict[str, Any]:
    """Both, on one cluster of three nodes."""
    with ray_nodes(len(NODES)) as nodes:
        return measure_on(nodes)


def measure_on(nodes: RayNodes) -> dict[str, Any]:
    """Both, on a cluster that loses a node by it."""
    times = added()
    plan = nodes.home / "plan.yaml"
    plan.write_text(PLAN)
    served = nodes.cotenant("serve", plan, "--on", nodes.address, "--port", 0, "--json")
    said = _lines(served)
    lost = _lost(nodes, _first_json(served)["urls"][NODES[0]], said)
    served.terminate()
    served.wait(60)
    return {**times, **lost}


def added() -> dict[str, Any]:
    """One device's server as the cluster starts it, asked by a client that has its secret, and through a front end."""
    file = TenantsFile.model_validate({"tenants": {"a": {"workload": "bert-base-mini", "seq": 16, "slo": "20s"}}})
    secret, host = "known here", "127.0.0.1"
    device = {"file": file.model_dump(mode="json"), "epoch": 1, "until_utc_s": time.time() + 3600, "drain_s": 1}
    front = {"port": 0, "tls_cert": None, "tls_key": None, "admin_key": None, "locked": False}
    children = [_child(kind, {**order, "host": host, "secret": secret}) for kind, order in (
        ("hosting", device), ("fronting", front),
    )]  # fmt: skip
    direct, through = (urlsplit(json.loads(child.stdout.readline())["url"]).netloc for child in children)
    _order(children[1], {"owners": {"d": [host, int(direct.rpartition(":")[2]), 1]}, "tenants": ["a"]})
    clients = {"direct": http.client.HTTPConnection(direct), "front end": http.client.HTTPConnection(through)}
    headers = {"direct": {SECRET: secret, EPOCH: "1"}, "front end": {}}
    times: dict[str, list[float]] = {name: [] for name in clients}
    while _ask(clients["front end"], "a")[1] != 200:
        time.sleep(0.1)
    for turn in range(REQUESTS // TURN + 2):
        for name, client in clients.items():
            found = [_ask(client, "a", headers[name]) for _ in range(TURN)]
            assert all(status == 200 for _, status in found), found
            if turn >= 2:  # warm
                times[name] += [seconds for seconds, _ in found]
    for child in children:
        child.kill()
        child.wait()
    p50 = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    return {"requests": REQUESTS, "p50_ms": p50, "added_ms": p50["front end"] - p50["direct"]}


def _child(kind: str, order: dict[str, Any]) -> Any:
    """A process of a node, as its actor starts it."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-m", f"cotenant.fleet.serving.{kind}"], stdin=pipe, stdout=pipe)
    _order(child, order)
    return child


def _order(child: Any, order: dict[str, Any]) -> None:
    child.stdin.write(json.dumps(order).encode() + b"\n")
    child.stdin.flush()


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
    print(json.dumps(measure(), indent=2))
