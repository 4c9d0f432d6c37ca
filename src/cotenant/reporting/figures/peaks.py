"""The peak rates of the device a run was measured on, if anybody knows them."""

from collections.abc import Mapping
from typing import Any

from cotenant.devices.protocol import Roofline
from cotenant.errors import DeviceError

SAME_MACHINE = ("model", "cores", "memory_bytes", "microcode", "torch")
"""Facts that tell a machine from another: peak rates remembered here say nothing about a machine elsewhere."""


def roofline_of(manifest: Mapping[str, Any]) -> Roofline | None:
    """From the manifest, or what this machine remembers if the run was measured on it; nothing is measured."""
    stated = manifest.get("roofline")
    if isinstance(stated, Mapping):
        return _stated(stated)
    from cotenant.devices.catalogue import find_device

    try:
        device = find_device(str(manifest.get("device", "")))
    except DeviceError:
        return None
    recall = getattr(device, "remembered_roofline", None)
    described = manifest.get("device_description")
    if recall is None or not isinstance(described, Mapping):
        return None
    here = device.describe()
    same = all(described.get(fact) == here.get(fact) for fact in SAME_MACHINE)
    found: Roofline | None = recall() if same else None
    return found


def _stated(stated: Mapping[str, Any]) -> Roofline | None:
    try:
        return Roofline(
            flops_per_s={str(dtype): float(rate) for dtype, rate in stated["flops_per_s"].items()},
            bytes_per_s=float(stated["bytes_per_s"]),
            cores=int(stated["cores"]),
            measured_utc=str(stated["measured_utc"]),
            undisturbed=bool(stated.get("undisturbed", True)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
