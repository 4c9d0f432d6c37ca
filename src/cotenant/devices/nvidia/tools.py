"""Runs NVIDIA's command-line tools and returns their output."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """Run a tool to completion. A missing or hanging one counts as failed."""
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
