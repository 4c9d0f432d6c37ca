"""Features of clients that others wrote. The table in docs/reference/compatibility.md is what this run found:
`COTENANT_COMPATIBILITY=write` writes it, without it every client that is here is compared with it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from cotenant.cli.main import main
from tests.serving.server.conftest import serving
from tests.support import pace
from tests.support.elsewhere import interpreter

pytestmark = [pytest.mark.slow, pytest.mark.long]
HERE = Path(__file__).parent / "clients"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "compatibility.md"
WRITES = os.environ.get("COTENANT_COMPATIBILITY") == "write"
TENANTS = """
threads: 1
tenants:
  bert: {{workload: bert-base-mini, seq: 16, slo: 60s, at_once: 8, group: encoders}}
  conv: {{workload: resnet18-mini, slo: 60s, group: encoders}}
  gpt:
    {{workload: {model}, seq: 8, mode: generate, tokens: 6, slo: {{ttft: 60s, tpot: 5s}}, at_once: 4,
     isolation: process}}
"""
HEAD = """<!-- Written by a run of tests/serving/server/test_compatibility.py with COTENANT_COMPATIBILITY=write. -->

# Clients of others

What clients that others wrote can do with `cotenant serve`, as their own code found it in a run of the tests against a
server with an encoder, a vision model and a decoder on workers of our own. *works*: the client got what it expects;
*refused*: the server said by name that it isn't offered, with status 400. Backends get all options unchanged.

| client | feature | |
| --- | --- | --- |
"""
TAIL = """
Through us to a Triton server (2.51, of `nvidia-pytriton` 0.7), 12 of the 14 calls of Triton's public examples that it
could execute give the same results as from Triton itself, over HTTP and gRPC: infer, async and asyncio, health and
metadata, reused objects, keep-alive, channel arguments, explicit types. The two with shared memory aren't offered. Its
Python backend failed on strings; that they pass unchanged is tested with an echo server.

Not tried: aiperf, clients of MLServer and Seldon, CUDA shared memory, and clients in other languages than Python.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A server, and the folder of its decoder, which has a tokenizer."""
    folder = tmp_path_factory.mktemp("clients")
    model = folder / "model"
    assert main(["workloads", "export", "llama-3.2-1b-mini", str(model)]) == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(folder, TENANTS.format(model=model), "--grpc-port", str(port)) as server:
        server.grpc = f"127.0.0.1:{port}"
        server.model = str(model)
        yield server


def tried(script, module, variable, *arguments):
    """What became of each feature, by client."""
    command = [interpreter(module, variable), str(HERE / script), *arguments]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(400), check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"client"')]
    return {one["client"]: one["features"] for one in found}


def compare(found):
    """Compare with the page, or write what was found into it."""
    outcomes = [(client, *pair) for client, features in found.items() for pair in features.items()]
    assert [one for one in outcomes if one[2].startswith("fails")] == []
    if WRITES:
        keep(found)
    rows = {(nameless(client), feature): outcome for client, feature, outcome in table()}
    for client, features in found.items():
        assert {feature: rows.get((nameless(client), feature)) for feature in features} == features


def keep(found):
    rows = [row for row in table() if nameless(row[0]) not in {nameless(client) for client in found}]
    rows += [(client, feature, outcome) for client, features in found.items() for feature, outcome in features.items()]
    lines = [
        f"| {client} | {feature} | {outcome} |" for client, feature, outcome in sorted(rows, key=lambda row: row[0])
    ]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n" + TAIL)


def table():
    text = PAGE.read_text() if PAGE.exists() else ""
    return [row for row in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE) if row[2] != "---"]


def nameless(client):
    """Without its version: another one may be here."""
    return re.sub(r" \d\S*", "", client)


def test_openai(place):
    compare(tried("openai_features.py", "openai", "COTENANT_CLIENTS", place.url))


def test_tritonclient(place):
    compare(tried("triton_features.py", "tritonclient", "COTENANT_CLIENTS", place.url, place.grpc))


def test_litellm_langchain_llamaindex_and_kserve(place):
    compare(tried("framework_features.py", "litellm", "COTENANT_FRAMEWORKS", place.url, place.grpc))


def test_vllm_bench(place):
    compare(tried("vllm_bench.py", "vllm", "COTENANT_VLLM", place.url, place.model))


def test_guidellm(place):
    compare(tried("guidellm_features.py", "guidellm", "COTENANT_GUIDELLM", place.url, place.model))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't installed")
def test_curl(place):
    def said(*options):
        command = ["curl", "-sS", "--max-time", "100", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    body = json.dumps({"model": "gpt", "prompt": "a", "max_tokens": 4, "stream": True})
    lines = [line for line in said("-N", f"{place.url}/v1/completions", "-d", body).splitlines() if line]
    page = said("-L", "-o", os.devnull, "-w", "%{http_code} %{content_type} %{url_effective}", f"{place.url}/")
    chunked = said("-H", "transfer-encoding: chunked", f"{place.url}/v1/completions", "-d", body)
    head = said("-I", f"{place.url}/health")
    works = {
        "events of a stream": len(lines) == 5 and lines[-1] == "data: [DONE]",
        "a body in chunks": chunked.endswith("data: [DONE]\n\n"),
        "redirect of / to the live page": page == f"200 text/html; charset=utf-8 {place.url}/ui",
        "HEAD of a health check": head.startswith("HTTP/1.1 200"),
    }
    compare(
        {f"curl {said('--version').split()[1]}": {name: "works" if fine else "fails" for name, fine in works.items()}}
    )


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't installed")
def test_promtool(place):
    assert place.ask("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 2})[0] == 200
    page = place.ask("/metrics")[2]
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not THEIRS.match(line)]
    version = subprocess.run(["promtool", "--version"], capture_output=True, text=True, check=True)
    number = re.search(r"version (\S+)", version.stdout + version.stderr)[1].split("+")[0]
    outcome = "works" if done.returncode in (0, 3) and not said else f"fails: {' '.join(said)[:300]}"
    compare({f"promtool {number}": {"metrics are valid; it objects only to names that vLLM and Triton chose": outcome}})


THEIRS = re.compile(r"^(vllm:|nv_inference_)")
"""Names that others chose."""
