"""Origin of a run: machine, versions, git state. Recorded at every start, so that a number can be traced."""

import importlib.metadata
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger(__name__)

PACKAGES = ("cotenant", "torch", "transformers", "numpy", "scipy", "duckdb", "pydantic", "psutil")
ENVIRONMENT = (
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "CUDA_",
    "NVIDIA_",
    "TORCH_",
    "PYTORCH_",
    "MALLOC_",
    "LD_PRELOAD",
    "ONEDNN_",
)
"""Variables that affect speed; others stay private."""


def now_utc() -> str:
    """ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def session() -> dict[str, Any]:
    """The facts of a start (or resume) of a run."""
    return {
        "started_utc": now_utc(),
        "pid": os.getpid(),
        "argv": sys.argv,
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(ENVIRONMENT)},
        "git": _git(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> Mapping[str, Any] | None:
    """The commit of the working directory (the user's project), and whether there are uncommitted changes."""
    try:
        commit = _run("git", "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_run("git", "status", "--porcelain"))} if commit else None
    except (OSError, subprocess.SubprocessError) as error:
        log.debug("no git state: %s", error)
        return None


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
