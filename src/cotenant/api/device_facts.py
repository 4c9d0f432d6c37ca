"""What a run's manifest says about its device; a manifest from elsewhere may lack any of it."""

from collections.abc import Mapping
from typing import Any


def described(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The device's own description."""
    found = manifest.get("device_description")
    return found if isinstance(found, Mapping) else {}


def cores_of(manifest: Mapping[str, Any]) -> int:
    """How many cores its device has; 1 if it doesn't say."""
    cores = described(manifest).get("cores")
    return len(cores) if isinstance(cores, list) and cores else cores if isinstance(cores, int) and cores > 0 else 1
