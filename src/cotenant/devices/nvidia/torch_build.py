"""The accelerators torch was built for, read from its files: importing it takes seconds and, on a GPU, memory."""

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path


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
        folder: The package's folder; by default the one Python would import.
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
