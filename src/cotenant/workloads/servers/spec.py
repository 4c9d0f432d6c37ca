"""`server:` of a tenant: how to start the server its workload talks to."""

import shlex
import string
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from cotenant.workloads.servers.presets import PRESETS

PORT = "port"
GRPC_PORT = "grpc_port"
METRICS_PORT = "metrics_port"
PORTS = (PORT, GRPC_PORT, METRICS_PORT)
"""Placeholders in a start line; the first is required, the others are for servers with more ports."""


class ServerSpec(BaseModel):
    """How a server is started, when it is ready, and how it is stopped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str = Field(
        description="The command, without a shell; `{port}` stands for the port cotenant chooses, `{grpc_port}` "
        "and `{metrics_port}` for two more.",
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
        description="Path of its metrics in Prometheus's form, read once a second as sensors; null: never read.",
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
        given = {key: one for key, one in value.items() if key not in {"preset", "model", "args"}}
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
        return {key: one if isinstance(one, str) else str(one) for key, one in value.items()}

    @field_validator("ready", "metrics")
    @classmethod
    def _path(cls, path: str | None) -> str | None:
        if path is None:
            return None
        if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError("expected a path such as /health")
        return path

    @model_validator(mode="after")
    def _names_the_port(self) -> Self:
        try:
            words = [*shlex.split(self.start), *shlex.split(self.memory), *shlex.split(self.whole_memory or "")]
            names = [name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None]
        except ValueError as error:
            raise ValueError(f"start can't be split into arguments: {str(error).lower()}") from None
        if not words:
            raise ValueError("start has no program")
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
