"""Runs NVIDIA's command-line tools and gives what they said."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """How a tool answered."""

    ok: bool
    out: str
    words: str
    """The line that says why it failed, as far as one can tell; else its last line."""


def there(tool: str) -> bool:
    """Whether it is on the path."""
    return shutil.which(tool) is not None


def run(
    command: Sequence[str], *, text: str = "", env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Said:
    """Run a tool to its end. One that is missing or hangs has failed."""
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
        return Said(ok=False, out="", words=f"{command[0]} is not installed")
    except OSError as error:
        return Said(ok=False, out="", words=f"{command[0]} can't be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Said(ok=False, out="", words=f"{command[0]} did not answer within {timeout_s:g} s")
    return Said(ok=done.returncode == 0, out=done.stdout, words=_telling(done.stderr, done.stdout))


def _telling(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    signs = ("fail", "error", "insufficient", "unable", "cannot", "can't", "not ", "no ")
    return next((line for line in lines if any(sign in line.lower() for sign in signs)), lines[-1] if lines else "")[
        :300
    ]
