"""A device of a plan as a tenants file, to serve the output of `cotenant plan`."""

from collections.abc import Mapping
from typing import Any

from cotenant.errors import StudyError
from cotenant.planning.mixes.study import sharing_of
from cotenant.tenancy.nouns import ALONE

TURNS = (ALONE, "processes", "threads")
"""Ways to share in which the scheduler gives out the whole device, in place of the system's time slices."""


def is_plan(data: Mapping[str, Any]) -> bool:
    """Whether a file's data is a plan."""
    return "plan" in data and "devices" in data


def tenants_of(data: Mapping[str, Any], source: str, device: str | None) -> dict[str, Any]:
    """The tenants of one device of a plan, as in a tenants file.

    Args:
        data: Contents of the plan's file.
        source: Its name, for messages.
        device: One of the plan's devices; None: the only one.

    Raises:
        StudyError: The plan has no such device, or its tenants can't be served.
    """
    devices = _devices(data, source)
    if device is None and len(devices) > 1:
        raise StudyError(f"{source} has {len(devices)} devices", hint=f"choose one: --device {next(iter(devices))}")
    name = device or next(iter(devices))
    if name not in devices:
        raise StudyError(f"{source} is a plan for {', '.join(devices)}, not for {name}", hint="choose one of them")
    tenants = devices[name].get("tenants")
    if not isinstance(tenants, dict) or not tenants:
        raise StudyError(f"{source} puts no tenant on {name}", hint="choose another device")
    sharing = str(devices[name].get("sharing", ALONE))
    divided = sharing not in TURNS
    found = {key: _tenant(key, entry, source, divided=divided) for key, entry in tenants.items()}
    return {"device": name, "tenants": found, **({"sharing": sharing_of(devices[name])} if divided else {})}


def device_names(data: Mapping[str, Any], source: str) -> tuple[str, ...]:
    """Names of a plan's devices. Raises StudyError."""
    return tuple(_devices(data, source))


def _devices(data: Mapping[str, Any], source: str) -> Mapping[str, Mapping[str, Any]]:
    devices = {str(one.get("name")): one for one in data["devices"] or () if isinstance(one, dict)}
    if not devices:
        raise StudyError(f"{source} has no devices", hint="make a plan: cotenant plan tenants.yaml --out plan.yaml")
    return devices


def _tenant(name: str, entry: Any, source: str, *, divided: bool) -> dict[str, Any]:
    runs = entry.get("runs") if isinstance(entry, dict) else None
    if not isinstance(runs, dict):
        raise StudyError(
            f"{source} doesn't say what tenant {name} runs", hint="plan from a tenants file that names workloads"
        )
    rate, cv = entry.get("rate_rps"), entry.get("cv", 1)
    tenant = {**runs, "batch": entry.get("batch", 1), "slo": _objective(name, entry, source)}
    tenant["software"] = entry.get("software", "eager")
    if rate:
        tenant["load"] = f"poisson({rate:g})" if cv == 1 else f"gamma({rate:g}, {cv:g})"
    if divided:
        tenant["slowdown"] = max(1.0, float(entry.get("slowdown", 1.0)))
        tenant["priority"] = entry.get("priority", 0)
    elif (share := entry.get("share")) is not None:
        if isinstance(share, str):
            raise StudyError(
                f"{source} gives {name} the instance {share}, but its sharing isn't mig", hint="plan again"
            )
        tenant["share"] = f"{share:g}%"
    return tenant


def _objective(name: str, entry: Mapping[str, Any], source: str) -> dict[str, str]:
    expected = entry.get("expected")
    if not isinstance(expected, dict) or not expected:
        raise StudyError(f"{source} has no objective for {name}", hint="give it an `slo` and plan again")
    return {str(kind): f"{float(one['limit_ms']):g}ms" for kind, one in expected.items()}
