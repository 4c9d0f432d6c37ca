"""Servers that people run: how each is started, when it is ready, and how it is told its share of memory."""

import importlib.util
import shutil
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """One server, started by `server: {preset: NAME, model: ...}`."""

    name: str
    program: str
    start: str
    """`{model}` stands for the model, `{port}` for the port."""
    ready: str
    workload: str
    """The workload that drives it."""
    memory: str
    """How it is told its share of the device's memory."""
    tried: str | None
    """The version that has been measured with cotenant; None: never run."""
    module: str | None = None
    """Python module that has to be there too."""

    @property
    def installed(self) -> bool:
        """Its program can be started here."""
        there = shutil.which(self.program) is not None
        return there and (self.module is None or importlib.util.find_spec(self.module) is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"installed": self.installed}


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "vllm", "vllm", "vllm serve {model} --host 127.0.0.1 --port {port}", "/health", "openai:",
            "args: --kv-cache-memory-bytes BYTES (or --gpu-memory-utilization SHARE); on a CPU "
            "env: {VLLM_CPU_KVCACHE_SPACE: GIB}", None,
        ),
        Preset(
            "sglang", "python3", "python3 -m sglang.launch_server --model-path {model} --host 127.0.0.1 --port {port}",
            "/health", "openai:", "args: --mem-fraction-static SHARE", None, "sglang",
        ),
        Preset(
            "tei", "text-embeddings-router",
            "text-embeddings-router --model-id {model} --hostname 127.0.0.1 --port {port}", "/health", "openai:",
            "args: --max-batch-tokens N bounds it", None,
        ),
        Preset(
            "llama.cpp", "llama-server", "llama-server --model {model} --host 127.0.0.1 --port {port}", "/health",
            "openai:", "args: --ctx-size TOKENS --parallel SLOTS, and --n-gpu-layers N", None,
        ),
        Preset(
            "ollama", "ollama", "env OLLAMA_HOST=127.0.0.1:{port} ollama serve", "/", "openai:",
            "env: {OLLAMA_GPU_OVERHEAD: BYTES, OLLAMA_NUM_PARALLEL: N}", None,
        ),
        Preset(
            "triton", "tritonserver",
            "tritonserver --model-repository {model} --http-address 127.0.0.1 --http-port {port} "
            "--allow-grpc false --allow-metrics false",
            "/v2/health/ready", "v2:",
            "args: --cuda-memory-pool-byte-size DEVICE:BYTES; each backend has its own limit", None,
        ),
        Preset(
            "transformers", "transformers", "transformers serve {model} --host 127.0.0.1 --port {port}", "/health",
            "openai:", "has no setting: one model, its cache grows with what is asked", "5.22.2", "fastapi",
        ),
        Preset(
            "cotenant", "cotenant", "cotenant serve {model} --port {port}", "/v2/health/ready", "v2:",
            "by its plan", "0.1.0",
        ),
    )
}  # fmt: skip
