"""A fleet.yaml as `--devices` of a plan: devices, counts and prices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.errors import StudyError
from cotenant.tenancy.device_name import DeviceName
from cotenant.tenancy.document import NotYaml, read

_KEYS = ("device", "count", "price")
_HINT = "e.g. `devices: [{device: sim:a100-sxm4-80gb, count: 4, price: 1.20}, cuda:0]`"


def is_fleet_file(devices: str) -> bool:
    """True if `--devices` names a file."""
    return devices.endswith((".yaml", ".yml")) and not DeviceName(devices).simulated


def read_fleet(path: Path) -> tuple[str, Mapping[str, float]]:
    """The devices in the syntax of `--devices`, and prices per hour by kind.

    Raises:
        StudyError: with every problem of the file.
    """
    try:
        tree = read(opening.read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StudyError(f"{path} can't be read: {reason}", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    entries = tree.data.get("devices") if isinstance(tree.data, dict) else None
    if not isinstance(entries, list) or not entries:
        raise StudyError(f"{path} names no devices", hint=_HINT)
    names, prices, problems = [], {}, []
    for place, entry in enumerate(entries):
        problem = _problem(entry)
        if problem:
            problems.append(tree.places.describe(("devices", place), problem))
            continue
        one = {"device": entry} if isinstance(entry, str) else entry
        names.append(f"{one['device']}*{one['count']}" if "count" in one else str(one["device"]))
        if "price" in one:
            prices[str(one["device"])] = float(one["price"])
    if problems:
        raise StudyError(f"{path} has problems", problems=tuple(problems), hint=_HINT)
    return ", ".join(names), prices


def _problem(entry: Any) -> str | None:
    """The problem with an entry, in a sentence; None if it is valid."""
    if isinstance(entry, str):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("device"), str):
        return "expected a device such as sim:t4, or {device: sim:t4, count: 4, price: 0.50}"
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        return f"unknown key {unknown[0]}; expected one of {', '.join(_KEYS)}"
    count, price = entry.get("count", 1), entry.get("price", 0.0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return f"count: expected a number of devices from 1, not {count}"
    if isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
        return f"price: expected dollars per hour, not {price}"
    return None
