"""Without torch, transformers and numba: what starts from runs and servers works, the rest names its extra."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import numpy as np
import pytest

import cotenant
from cotenant.api.run import run
from cotenant.workloads.catalogue import find, model_entries
from cotenant.workloads.models.describing import describe, describe_by_template
from cotenant.workloads.protocol import WorkloadSpec
from validation.scripted_neighbours import Script, play

BLOCKED = """
import sys
from importlib import metadata
from importlib.abc import MetaPathFinder

LACKING = {"torch", "transformers", "numba"}


class Lacking(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Lacking())
installed = metadata.distribution


def distribution(name):
    if name in LACKING:
        raise metadata.PackageNotFoundError(name)
    return installed(name)


metadata.distribution = distribution
from cotenant.cli.main import entry

sys.exit(entry())
"""
PAIR = """
name: pair
tenants:
  search: {workload: bert-base-mini, rate: 20/s, slo: {p99: 100ms}}
  ranker: {workload: distilbert-mini, rate: 20/s, slo: {p99: 100ms}}
window: 20s
blocks: {min: 2, max: 2}
"""
METRIC = "http_request_duration_seconds"
READ_S = np.arange(0.0, 3600.0, 2.0)
PAGE = """
vllm:num_requests_running{model_name="m"} 1
vllm:request_success_total{model_name="m"} 10
vllm:e2e_request_latency_seconds_sum{model_name="m"} 1
vllm:e2e_request_latency_seconds_count{model_name="m"} 10
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lean")
    (folder / "pair.yaml").write_text(PAIR)
    result = run(folder / "pair.yaml", device="sim:t4", out=folder / "runs")
    (folder / "run").symlink_to(result.folder)
    return folder


@pytest.fixture
def lean(folder):
    def call(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-c", BLOCKED, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "NO_COLOR": "1",
                "COLUMNS": "200",
                "PYTHONPATH": str(Path(cotenant.__file__).parents[1]),
            },
        )
        assert "should not have happened" not in done.stderr, done.stderr
        assert done.returncode in ({code} if isinstance(code, int) else code), done.stderr + done.stdout
        return done

    return call


@pytest.mark.parametrize("verb", ["show", "explain", "report"])
def test_runs_are_read(lean, verb):
    said = lean(verb, "run", code={0, 2})
    assert said.stdout


def test_the_catalogue_is_listed(lean):
    assert "bert-base" in lean("workloads").stdout


def test_mixes_are_predicted_from_a_run(lean):
    said = lean("predict", "pair.yaml", "--from", "run", "--device", "sim:t4")
    assert "search + ranker" in said.stdout


def test_a_plan_is_made_in_closed_form(lean):
    said = lean("plan", "pair.yaml", "--devices", "sim:t4", code={0, 2, 3})
    assert "simulated (closed form)" in said.stdout
    assert 'pip install "cotenant[sim]"' in said.stderr


@pytest.mark.slow
def test_a_plan_is_made_from_a_run(lean, folder):
    tenants = "tenants:\n" + "".join(
        f"  {name}: {{workload: spin, params: {{work: {work}}}, LOAD}}\n"
        for name, work in (("a", 20_000), ("b", 10_000))
    )
    (folder / "measured.yaml").write_text(
        "name: measured\n" + tenants.replace("LOAD", "load: closed(1)") + "window: 1s\nblocks: {min: 2, max: 2}\n"
    )
    (folder / "planned.yaml").write_text(tenants.replace("LOAD", "rate: 10/s, slo: {p99: 1s}"))
    lean("run", "measured.yaml", "--device", "cpu", code={0, 2})
    (measured,) = (folder / "runs/measured").iterdir()
    said = lean("plan", "planned.yaml", "--from", str(measured), "--devices", "cpu", code={0, 2, 3})
    assert "p99" in said.stdout


def test_a_simulation_names_its_extra(lean):
    said = lean("run", "pair.yaml", "--device", "sim:t4", code=1)
    assert "needs numba" in said.stderr
    assert 'pip install "cotenant[sim]"' in said.stderr


def test_the_doctor_says_what_torch_is_for(lean):
    said = " ".join(lean("doctor", code={0, 2}).stdout.split())
    assert "torch is not installed: only servers can be measured" in said
    assert "peak rates are measured with torch" in said
    assert "Error" not in said


@pytest.mark.parametrize(
    "arguments", [("run", "pair.yaml", "--device", "cpu"), ("serve", "pair.yaml", "--dry-run"), ("selftest",)]
)
def test_models_on_a_real_device_name_their_extra(lean, arguments):
    said = lean(*arguments, code=1)
    assert "needs torch, which isn't installed" in said.stderr
    assert 'pip install "cotenant[models]"' in said.stderr


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_a_server_is_watched(lean):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        said = lean("watch", f"127.0.0.1:{server.server_port}", "--for", "3s", code={0, 2})
    finally:
        server.shutdown()
        server.server_close()
    assert said.stdout


class _Prometheus(BaseHTTPRequestHandler):
    """An hour of two servers, one of which slows the other."""

    pages: ClassVar[dict[str, tuple[np.ndarray, np.ndarray]]]

    def do_POST(self):
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        now_s = float(READ_S[-1])
        result = [now_s, str(now_s)]
        if asked["query"] != ["time()"]:
            until_s, seconds = float(asked["time"][0]), int(asked["query"][0].rpartition("[")[2][:-2])
            inside = (until_s - seconds <= READ_S) & (until_s >= READ_S)
            result = [
                {
                    "metric": {"__name__": f"{METRIC}_{kind}", "job": job, "instance": job},
                    "values": [[t_s, str(value)] for t_s, value in zip(READ_S[inside], totals[inside], strict=True)],
                }
                for job, counted in self.pages.items()
                for kind, totals in zip(("count", "sum"), counted, strict=True)
            ]
        body = json.dumps({"status": "success", "data": {"result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def watched(lean):
    """The folder of a run of `watch` that decided."""
    a, b, _ = play(Script(seed=1, slows=2.0))
    _Prometheus.pages = {name: served.page(READ_S)[:2] for name, served in (("a", a), ("b", b))}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        said = lean(
            "watch", "--prometheus", f"127.0.0.1:{server.server_port}", "--histogram", METRIC, "--device", "cpu"
        )
    finally:
        server.shutdown()
        server.server_close()
    assert "a slows b" in said.stdout
    return said.stderr.partition("cotenant show ")[2].split()[0]


def test_servers_are_watched_shown_and_planned_for(lean, folder, watched):
    assert "a slows b" in lean("show", watched).stdout
    assert "b" in lean("explain", watched).stdout
    (folder / "b.yaml").write_text("tenants:\n  b: {workload: bert-base, rate: 1/s, slo: 30s}\n")
    planned = lean("plan", "b.yaml", "--from", watched, "--devices", "sim:t4")
    assert "rates as served" in planned.stderr


@pytest.mark.slow
def test_a_server_is_measured(lean, folder):
    (folder / "servers.yaml").write_text(
        "name: servers\n"
        "tenants:\n"
        "  chat:\n"
        "    workload: 'openai:'\n"
        "    tokens: 4\n"
        "    params: {model: scripted}\n"
        f"    server: {{start: '{sys.executable} -m cotenant.workloads.servers.scripted --port {{port}}'}}\n"
        "window: 2s\nblocks: {min: 1, max: 1}\nloads: [closed(1)]\n"
    )
    lean("run", "servers.yaml", "--device", "cpu", code={0, 2})


@pytest.mark.parametrize(
    "spec",
    [
        WorkloadSpec(name="bert-base", batch=4, seq=77, dtype="bfloat16"),
        WorkloadSpec(name="distilbert-mini"),
        WorkloadSpec(name="resnet18", batch=3, dtype="float16"),
        WorkloadSpec(name="gpt2-mini", batch=2, seq=64, mode="generate", tokens=9, dtype="float16"),
        WorkloadSpec(name="llama-3.2-1b-mini", batch=1, seq=100, mode="prefill"),
        WorkloadSpec(name="yolos-small", dtype="float16"),
    ],
    ids=lambda spec: spec.name,
)
def test_a_template_describes_a_request_as_a_dry_run_does(spec):
    entry = find(spec.name).entry
    shipped, computed = describe_by_template(entry, spec), describe(entry, spec)
    assert shipped.operators == computed.operators
    assert shipped.flops == computed.flops
    assert shipped.bytes_moved == computed.bytes_moved
    assert shipped.peak_memory_bytes == pytest.approx(computed.peak_memory_bytes, rel=0.01)
    assert (shipped.params, shipped.weight_bytes) == (computed.params, computed.weight_bytes)


def test_most_models_of_the_catalogue_ship():
    from cotenant.workloads.models.describing import find_template

    shipped = [
        entry.name
        for entry in model_entries()
        if find_template(entry, entry.modes[0], "float16", 1, entry.seq or 0) is not None
    ]
    assert len(shipped) > 0.8 * len(model_entries())
    assert Path(find_template.__code__.co_filename).with_name("templates.json.gz").stat().st_size < 2 << 20
