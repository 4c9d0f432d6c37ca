"""Runs NVIDIA's command-line tools and returns their output."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result."""

    ok: bool
    out: str
    reason: str
    """The line that most likely says why it failed; else the last line."""


def installed(tool: str) -> bool:
    """True if it is on the path."""
    return shutil.which(tool) is not None


def run(
    command: Sequence[str], *, text: str = "", env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> ToolResult:
    """Run a tool to completion. A missing or hanging tool counts as failed."""
    try:
        done = subprocess.run(
            list(command),
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        return ToolResult(ok=False, out="", reason=f"{command[0]} is not installed")
    except OSError as error:
        return ToolResult(ok=False, out="", reason=f"{command[0]} can't be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return ToolResult(ok=False, out="", reason=f"{command[0]} did not answer within {timeout_s:g} s")
    return ToolResult(ok=done.returncode == 0, out=done.stdout, reason=_reason(done.stderr, done.stdout))


def _reason(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    signs = ("fail", "error", "insufficient", "unable", "cannot", "can't", "not ", "no ")
    return next((line for line in lines if any(sign in line.lower() for sign in signs)), lines[-1] if lines else "")[
        :300
    ]


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """One installed torch."""

    version: str
    cuda: str | None = None
    """The CUDA it was built with."""
    hip: str | None = None
    xpu: str | None = None

    @property
    def kind(self) -> str | None:
        """Torch's name for the accelerators it supports; None for CPU only."""
        if self.cuda or self.hip:
            return "cuda"
        return "xpu" if self.xpu else None

    @property
    def built_for(self) -> str:
        """The target as text."""
        named = (("CUDA", self.cuda), ("ROCm", self.hip), ("XPU", self.xpu))
        return " and ".join(f"{name} {version}" for name, version in named if version) or "CPUs only"


def torch_build(folder: Path | None = None) -> TorchBuild | None:
    """The installed build; None if torch is missing.

    Args:
        folder: The package's folder; by default that which Python would import.
    """
    if folder is None:
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return TorchBuild(importlib.metadata.version("torch"))
    found = dict(re.findall(r"^(\w+)\s*(?::[^=]+)?=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE))
    return TorchBuild(
        version=found.get("__version__", "?"),
        cuda=found.get("cuda"),
        hip=found.get("hip"),
        xpu=found.get("xpu"),
    )
