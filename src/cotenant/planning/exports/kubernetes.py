"""Kubernetes: a claim per device (dynamic resource allocation, resource.k8s.io/v1) and a deployment per tenant.

Sharing is configured in the claim for NVIDIA's driver, with one MPS percentage for all clients of a device. Unequal
shares can't be expressed.
"""

from typing import Any

from cotenant.planning.exports.manifests import with_script
from cotenant.planning.exports.model import CannotExpress, ExportedDevice, ExportedFolder, ExportedPlan
from cotenant.planning.exports.pods import deployment
from cotenant.planning.exports.quoting import cel_string, yaml_documents

_DRIVER = "gpu.nvidia.com"
_CONFIG = "resource.nvidia.com/v1beta1"


def export(plan: ExportedPlan) -> ExportedFolder:
    """`kubernetes.yaml`."""
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        found.append(_claim(device))
        claim = {"name": "gpu", "resourceClaimName": _name(device)}
        for tenant in device.tenants:
            claimed = {"name": "gpu", **({"request": tenant.key} if device.sharing == "mig" else {})}
            found.append(deployment(tenant, resources={"claims": [claimed]}, pod={"resourceClaims": [claim]}))
    return with_script(plan, {"kubernetes.yaml": yaml_documents(found)}, _notes(plan))


def _notes(plan: ExportedPlan) -> list[str]:
    ways = {device.sharing for device in plan.devices}
    notes = []
    if ways & {"mps", "processes"}:
        notes.append("memory isn't limited: pods that share a claim see the whole GPU")
    if "mps" in ways:
        notes.append("MPS needs the feature gate MPSSupport of NVIDIA's driver, time-slicing TimeSlicingSettings")
    if "mig" in ways:
        notes.append(
            "instances are made on demand from Kubernetes 1.36, by the feature gate DynamicMIG of NVIDIA's driver"
        )
        notes.append("before that, make them on the nodes; DynamicMIG and MPSSupport exclude each other")
    return notes


def _claim(device: ExportedDevice) -> dict[str, Any]:
    """One claim per device, so that its tenants share it: instances of a claim come from one GPU."""
    devices: dict[str, Any] = {"requests": _requests(device)}
    if device.sharing == "mig":
        devices["constraints"] = [{"requests": [], "matchAttribute": f"{_DRIVER}/parentUUID"}]
    sharing = _sharing(device)
    if sharing is not None:
        parameters = {"apiVersion": _CONFIG, "kind": "GpuConfig", "sharing": sharing}
        devices["config"] = [{"requests": ["gpu"], "opaque": {"driver": _DRIVER, "parameters": parameters}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": _name(device)},
        "spec": {"devices": devices},
    }


def _requests(device: ExportedDevice) -> list[dict[str, Any]]:
    model = _cel("productName", device.title)
    if device.sharing != "mig":
        exactly: dict[str, Any] = {"deviceClassName": _DRIVER, "selectors": [model]}
        return [{"name": "gpu", "exactly": {**exactly, **({"count": device.gpus} if device.gpus > 1 else {})}}]
    return [
        {
            "name": tenant.key,
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "selectors": [_cel("profile", str(tenant.profile)), model],
            },
        }
        for tenant in device.tenants
    ]


def _sharing(device: ExportedDevice) -> dict[str, Any] | None:
    if device.sharing in {"alone", "mig"}:
        return None
    if device.sharing == "processes":
        return {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
    if device.sharing != "mps":
        raise CannotExpress("kubernetes", f"`{device.sharing}` on {device.name}", "cotenant")
    shares = device.percentages
    if len(set(shares)) > 1:
        written = ", ".join(f"{tenant.name} {tenant.percentage} %" for tenant in device.tenants)
        raise CannotExpress("kubernetes", f"unequal MPS shares on {device.name} ({written})", "kubernetes-hami")
    config: dict[str, Any] = {"defaultActiveThreadPercentage": shares[0] if shares else 100}
    return {"strategy": "MPS", "mpsConfig": config}


def _cel(attribute: str, value: str) -> dict[str, Any]:
    return {"cel": {"expression": f"device.attributes['{_DRIVER}'].{attribute} == {cel_string(value)}"}}


def _name(device: ExportedDevice) -> str:
    return f"cotenant-device-{device.number}"
