"""The studies behind `copies`: a single copy at rising load, then 1 to N copies under every way to share."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cotenant.errors import StudyError
from cotenant.study.files import load_study, study_from
from cotenant.study.model import Study
from cotenant.study.windows import LONGEST_S
from cotenant.tenancy.load import MOST_OUTSTANDING, Load
from cotenant.tenancy.tenant_entry import TenantEntry

SEPARATE = ("processes", "pinned", "mps", "mig")
"""Ways to share in which each tenant is a process of its own, as copies of a server are."""
FIRST_LEVELS = (1, 2, 4, 8, 16, 32)
MORE_LEVELS = (64, 128, 256)
WINDOW_S = 2.0
TUNING_WINDOW_S = 1.0
LEAD_S = 0.5
REQUESTS = 100
"""In a window of each copy: three windows then have a p99."""
REQUESTS_TUNED = 12
"""In a window with a single request in flight."""


def ways_among(modes: Sequence[str], *, gpu: bool) -> list[str | dict[str, str]]:
    """The ways to try, in the syntax of a file; of those that the device supports."""
    ways: list[str | dict[str, str]] = []
    for mode in SEPARATE:
        if mode in modes:
            ways.append(mode)
            if mode == "mps" and gpu:
                ways.append({"mps": "equal"})
    return ways


def server_tenant(
    server: str | Path, workload: str, request: Mapping[str, Any], ready: str, memory: str
) -> tuple[str, dict[str, Any], str | None]:
    """The name of the server, its tenant as in a file, and the file's device."""
    path = Path(server)
    try:
        words = shlex.split(str(server)) if "{" in str(server) or not path.suffix else []
    except ValueError as error:
        raise StudyError(f"{server}: {error}", hint="close the quote, or escape it with a backslash") from None
    if path.suffix in {".yaml", ".yml"} and len(str(server).split()) == 1:
        study = load_study(path)
        if len(study.tenants) != 1:
            raise StudyError(
                f"{path} has {len(study.tenants)} tenants", hint="copies are of one server: give a file with one tenant"
            )
        [(name, entry)] = study.tenants.items()
        return name, entry.model_dump(mode="json", exclude_defaults=True), study.device
    if "{port}" not in str(server):
        free, fixed = re.subn(r"(--?p(?:ort)?[= ])\d+", r"\1{port}", str(server))
        raise StudyError(
            "the command has no {port}: each copy needs a port of its own",
            hint=f'write cotenant copies "{free if fixed else free + " --port {port}"}"',
        )
    name = Path(words[0]).name if words else "server"
    known = {"python", "python3", "env", "bash", "sh"}
    label = "server" if name in known or not name.replace("-", "").replace("_", "").isalnum() else name
    start = {"start": str(server), "ready": ready, **({"memory": memory} if memory else {})}
    return label, {"workload": workload, "server": start, **request}, None


def load_asked(load: str | None, rate: str | None) -> Load | None:
    """The load of each copy, or the rate of all of them. Raises StudyError."""
    try:
        if rate is not None:
            return TenantEntry.model_validate({"workload": "null", "rate": rate}).load
        return None if load is None else Load.model_validate(load)
    except ValidationError as error:
        said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise StudyError(f"{rate or load}: {said}", hint="write --rate 20/s or --load 'closed(16)'") from None


def levels_from(load: Load | None) -> tuple[int, ...]:
    """Requests in flight to try with a single copy; a given load must turn out to be enough."""
    if load is None:
        return FIRST_LEVELS
    return tuple(dict.fromkeys(min(load.outstanding * times, MOST_OUTSTANDING) for times in (1, 2, 4)))


def tuning_study(
    name: str, entry: Mapping[str, Any], device: str, *, levels: Sequence[int], window_s: float, seed: int
) -> Study:
    """A single copy under each number of requests in flight, in two blocks."""
    return study_from(
        {
            "name": f"{name}-tuning",
            "about": "From how many requests in flight on does one copy serve no more?",
            "device": device,
            "tenants": {name: {key: value for key, value in entry.items() if key not in {"load", "rate", "slo"}}},
            "mixes": ["solo"],
            "loads": [f"closed({level})" for level in levels],
            "window": f"{window_s:g}s",
            "lead": f"{LEAD_S:g}s",
            "blocks": 2,
            "budget": None,
            "alone_stopped": False,
            "seed": seed,
        }
    )


def copies_study(
    name: str,
    entry: Mapping[str, Any],
    device: str,
    ways: Sequence[str | dict[str, str]],
    load: Load,
    *,
    up_to: int,
    window_s: float,
    blocks: tuple[int, int],
    budget_s: float | None,
    seed: int,
) -> Study:
    """1 to ``up_to`` copies under each way to share, every trial with servers of its own.

    A closed load is that of each copy, to saturate it; the rate of an open load is divided among them.
    """
    several = "replicas" if load.open else "copies"
    own = {key: value for key, value in entry.items() if key not in {"load", "rate"}}
    return study_from(
        {
            "name": f"{name}-copies",
            "about": "How many copies of this server should share the device, and how?",
            "device": device,
            "tenants": {name: {**own, "load": str(load), "own_cores": True}},
            "mixes": ["solo", {several: {name: list(range(2, up_to + 1))}}],
            "sharing": list(ways),
            "shares": "given",
            "fresh": "trial",
            "window": f"{window_s:g}s",
            "lead": f"{LEAD_S:g}s",
            "blocks": {"min": blocks[0], "max": blocks[1]},
            "until": {"interval": 0.05} if blocks[0] < blocks[1] else None,
            "budget": None if budget_s is None else f"{budget_s:g}s",
            "seed": seed,
        }
    )


def window_for(rate_rps: float, up_to: int, latency_s: float) -> float:
    """Seconds in which even the last of the copies has enough requests, if they only take turns."""
    window_s = max(REQUESTS * up_to / rate_rps if rate_rps > 0 else 0.0, REQUESTS_TUNED * latency_s)
    return float(math.ceil(min(max(WINDOW_S, window_s), LONGEST_S)))
