"""What a search is asked for."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cotenant.errors import CotenantError

DEFAULT_MEMORY = 4 * 10**9
DEFAULT_TOP = 10
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$")
_UNITS = {
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_TIME = re.compile(r"^(\d+(?:\.\d+)?)\s*(s|min|h)$")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a search computes; kept in its folder, so that it can go on."""

    data: str
    models: tuple[str, ...]
    scorer: str = "linear"
    budget_s: float | None = None
    memory_bytes: int = DEFAULT_MEMORY
    exact: bool = False
    device: str = "cpu"
    skip_bad: bool = False
    top: int = DEFAULT_TOP
    """How many of the ranking get an interval and a line in the table."""
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Settings":
        """Back from plain data."""
        return cls(**{**data, "models": tuple(data["models"])})


def read_size(text: str) -> int:
    """Bytes from `4GB` or `512MiB`."""
    match = _SIZE.match(text.strip())
    if match is None or not 0 < float(match.group(1)) < math.inf:
        raise CotenantError(f"{text!r} is no amount of memory", hint="write --memory 4GB or --memory 512MiB")
    return int(float(match.group(1)) * _UNITS[match.group(2)])


def read_time(text: str) -> float:
    """Seconds from `10min`."""
    match = _TIME.match(text.strip())
    if match is None or not float(match.group(1)) > 0:
        raise CotenantError(f"{text!r} is no time", hint="write --budget 10min, 90s or 2h")
    return float(match.group(1)) * _SECONDS[match.group(2)]
