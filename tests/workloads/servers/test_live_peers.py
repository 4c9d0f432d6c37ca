"""Complete runs with vLLM, llama.cpp and Triton, each started by cotenant from an environment of its own."""

from pathlib import Path

import pytest

from cotenant.cli.main import main
from tests.support.elsewhere import interpreter
from tests.workloads.servers.test_live_servers import measured

pytestmark = pytest.mark.slow

PEERS = Path(__file__).with_name("peers")
TOKENS = """SELECT tenant, bool_and(ok), count(DISTINCT mix), min(tokens_out), max(tokens_out),
    count(*) FILTER (started_ns < first_ns AND first_ns <= done_ns) = count(*)
    FROM requests JOIN trials USING (run, trial) WHERE block >= 0 GROUP BY tenant"""


@pytest.fixture
def exported(tmp_path):
    folder = tmp_path / "model"
    assert main(["workloads", "export", "llama-3.2-1b-mini", str(folder), "--gguf"]) == 0
    return folder


def chat(start, **server):
    return {
        "workload": "openai:",
        "server": {"start": start, "warm": 1, **server},
        "seq": 8,
        "tokens": 4,
        "load": "closed(2)",
    }


def triton(tmp_path, workload):
    """Its Python backend, over HTTP or gRPC."""
    python = interpreter("pytriton", "COTENANT_TRITON")
    script = PEERS / "triton_server.py"
    start = f"{python} {script} {tmp_path / 'triton'} {{port}} {{grpc_port}} {{metrics_port}}"
    return {
        "workload": workload,
        "server": {"start": start, "ready": "/v2/health/ready"},
        "params": {"model": "echo"},
        "load": "closed(2)",
    }


def test_vllm_is_measured_token_by_token(tmp_path, exported):
    python = interpreter("vllm", "COTENANT_VLLM")
    start = f"{python} -m vllm.entrypoints.openai.api_server --model {exported} --max-model-len 256 --port {{port}}"
    env = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    rows = measured(tmp_path, {"chat": chat(start, env=env)}, TOKENS, mixes=["solo"])
    assert rows == [("chat", True, 1, 4, 4, True)]


def test_llama_cpp_is_measured_beside_triton(tmp_path, exported):
    python = interpreter("xllamacpp", "COTENANT_LLAMA")
    start = f"{python} {PEERS / 'llama_server.py'} {exported / 'model.gguf'} {{port}}"
    tenants = {"chat": chat(start), "infer": triton(tmp_path, "v2:")}
    rows = measured(tmp_path, tenants, TOKENS)
    assert sorted(rows) == [("chat", True, 2, 4, 4, True), ("infer", True, 2, None, None, False)]


def test_triton_is_measured_over_grpc(tmp_path):
    rows = measured(tmp_path, {"infer": triton(tmp_path, "v2:grpc:")}, TOKENS, mixes=["solo"])
    assert rows == [("infer", True, 1, None, None, False)]
