"""An overloaded server: nothing may grow, and every request gets one answer.

    python benchmarks/serving/soak.py --seconds 3600 [--load 1.5 2 2.5 3] [--empty] [--rough]

Several loads take turns, ten seconds each. ``--empty``: the encoder and the image model sleep instead of computing, so
that the device is overloaded but the machine isn't. ``--rough``: once a second a client leaves in the middle of its
request, one before its answer, and one sends a wrong request; the file is reloaded in each slice.
Exit code 1 if memory, descriptors or threads of the server or its workers grew, or if a request got no answer.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

from load import Connection, offered, requests, spaced
from ours import LOOSE_MS, server, tenants_file

SLICE_S = 10.0
MEMORY_GROWTH_KIB = 32 * 1024
"""Allowed growth of resident memory after the first slices, which fill caches and pools: a hundred images in flight."""
WARM_SLICES = 3
EMPTY_PARTS = {"bert": 0.48, "conv": 0.48, "gpt": 0.04}
"""Parts of the load if only the decoder computes."""


def use_of(pid: int) -> dict[str, int]:
    """Resident memory in KiB, descriptors and threads of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    return {
        "memory_kib": int(fields["VmRSS"].split()[0]),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": int(fields["Threads"]),
    }


def processes(host: str, port: int, pid: int) -> list[int]:
    """The server and its workers."""
    with urlopen(f"http://{host}:{port}/status", timeout=30) as answer:
        return [pid, *(worker["pid"] for worker in json.load(answer)["workers"])]


def grown(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """What has grown; a few descriptors of idle connections don't count."""
    allowed = {
        "memory_kib": before["memory_kib"] + MEMORY_GROWTH_KIB,
        "descriptors": before["descriptors"] + 64,
        "threads": before["threads"] + 1,
    }
    return [f"{name} from {before[name]} to {after[name]}" for name in before if after[name] > allowed[name]]


WRONG = b"POST /v2/models/bert/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{'inputs'"


async def disturb(host: str, port: int, pid: int, request: bytes) -> Counter[str]:
    """Clients that leave, wrong requests, and a reload, for a slice; returns what went wrong."""
    problems = Counter[str]()
    for second in range(int(SLICE_S)):
        for sent in (request[: len(request) // 2], request):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(sent)
            writer.close()
        wrong = Connection(host, port)
        if (status := await wrong.send(WRONG)) != 400:
            problems[f"a wrong request was answered {status}"] += 1
        wrong.close()
        if second == SLICE_S // 2:
            os.kill(pid, signal.SIGHUP)
        await asyncio.sleep(1.0)
    return problems


async def soak(host: str, port: int, pid: int, options: argparse.Namespace) -> int:
    """Run slice by slice; returns the exit code."""
    wire = requests(host)
    costs = await spaced(host, port, wire)
    parts = EMPTY_PARTS if options.empty else dict.fromkeys(costs, 1 / len(costs))
    watched = processes(host, port, pid)
    first: dict[float, list[dict[str, int]]] = {}
    """What was used in the first warm slice of each load: more load needs more connections."""
    statuses: Counter[int] = Counter()
    rough: Counter[str] = Counter()
    for number in range(max(WARM_SLICES + len(options.load), round(options.seconds / SLICE_S))):
        load = options.load[number % len(options.load)]
        rates = {name: load * parts[name] / cost for name, cost in costs.items()}
        disturbing = asyncio.ensure_future(disturb(host, port, pid, wire["conv"])) if options.rough else None
        answers = await offered(host, port, wire, rates, seconds=SLICE_S, seed=number)
        if disturbing is not None:
            rough += await disturbing
        statuses.update(status for seen in answers.values() for _, status in seen)
        now = [use_of(one) for one in watched]
        if number >= WARM_SLICES - 1:
            first.setdefault(load, now)
        print(json.dumps({"slice": number, "load": load, "answers": dict(statuses), "use": now}), flush=True)
    problems = [sentence for before, after in zip(first[load], now, strict=True) for sentence in grown(before, after)]
    problems += [f"{count} answers {status}" for status, count in statuses.items() if status not in (200, 429, 413)]
    problems += [f"{count} times {sentence}" for sentence, count in rough.items()]
    if processes(host, port, pid) != watched:
        problems.append("a worker was restarted")
    print("nothing grew, and every request was answered" if not problems else "; ".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--load", type=float, nargs="+", default=[1.2], help="Fractions of its time, in turns.")
    parser.add_argument("--device", default="cpu:1")
    parser.add_argument("--empty", action="store_true", help="Models sleep instead of computing.")
    parser.add_argument("--rough", action="store_true", help="Clients leave, send nonsense, and the file is reloaded.")
    chosen = parser.parse_args()
    os.environ["EMPTY_S"] = "0.02"
    text = tenants_file({name: value / 30 for name, value in LOOSE_MS.items()}, "shares")
    with server(text, chosen.device, empty=chosen.empty) as (host, port, pid):
        code = asyncio.run(soak(host, port, pid, chosen))
    sys.exit(code)
