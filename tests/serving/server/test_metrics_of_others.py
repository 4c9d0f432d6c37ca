"""What vLLM and Triton export and we export too has the same names, types, labels and buckets."""

import os
import re
import signal
import subprocess
from collections import defaultdict

import pytest

from cotenant.cli.main import main
from tests.serving.http.front import run
from tests.serving.server.test_triton_examples import TRITON, fetched, free_ports
from tests.support.elsewhere import interpreter

pytestmark = [pytest.mark.slow, pytest.mark.long]
LINE = re.compile(r"^(\w[\w:]*?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$")
VLLM_LACKS = {
    "vllm:iteration_tokens_total", "vllm:request_params_n", "vllm:request_num_preemptions", "vllm:cache_config_info",
    "vllm:engine_sleep_state", "vllm:num_requests_waiting_by_reason", "vllm:num_preemptions_total",
    "vllm:admission_rejections_total", "vllm:prompt_tokens_by_source_total", "vllm:prompt_tokens_cached_total",
    "vllm:prompt_tokens_cached_by_source_total",
}  # fmt: skip
"""What we have no value for, besides prefix caches, other caches and estimates."""
TRITON_LACKS = {
    "nv_inference_exec_count", "nv_inference_compute_input_duration_us", "nv_inference_compute_output_duration_us",
}  # fmt: skip


def described(page):
    """By metric: its type, its label names and its buckets."""
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", page, re.MULTILINE))
    labels, edges = defaultdict(set), defaultdict(set)
    for line in page.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        name = match[1] if types.get(match[1]) == "histogram" else match[1] + (match[2] or "")
        found = dict(re.findall(r'(\w+)="([^"]*)"', match[3] or ""))
        edges[name].update({found.pop("le")} if "le" in found else ())
        labels[name].update(found)
    return {name: (kind, labels[name], edges[name]) for name, kind in types.items()}


def ours(prefix):
    async def scenario(client):
        await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 3})
        return (await client.get("/metrics")).body.decode()

    return {name: one for name, one in described(run(scenario, cache_memory=10_000)).items() if name.startswith(prefix)}


def test_vllm_has_what_we_export_under_its_names(tmp_path):
    python = interpreter("vllm", "COTENANT_VLLM")
    model = tmp_path / "model"
    assert main(["workloads", "export", "llama-3.2-1b-mini", str(model)]) == 0
    (port,) = free_ports(1)
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--max-model-len", "128"]
    env = {**os.environ, "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    command += ["--port", str(port)]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            theirs = described(fetched(f"http://127.0.0.1:{port}/metrics", process, within_s=900))
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # while it starts it doesn't listen to others
    own = ours("vllm:")
    assert {name: theirs[name] for name in own} == own
    left = {name for name in theirs if name.startswith("vllm:") and not name.endswith("_created")} - set(own)
    assert {name for name in left if "cache_" not in name and "estimated" not in name} - VLLM_LACKS == set()


def test_triton_has_what_we_export_under_its_names(tmp_path):
    python = interpreter("pytriton", "COTENANT_TRITON")
    http, grpc, metrics = map(str, free_ports(3))
    command = [python, str(TRITON), str(tmp_path), http, grpc, metrics]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            fetched(f"http://127.0.0.1:{http}/v2/health/ready", process)
            theirs = described(fetched(f"http://127.0.0.1:{metrics}/metrics", process))
        finally:
            process.terminate()
    own = ours("nv_")
    assert {name: theirs[name] for name in own} == own
    assert {name for name in theirs if name.startswith("nv_inference")} - set(own) == TRITON_LACKS
