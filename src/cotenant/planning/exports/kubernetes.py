"""Kubernetes: a claim per device (dynamic resource allocation, resource.k8s.io/v1) and a deployment per tenant.

Sharing is configured in the claim for NVIDIA's driver, with one MPS percentage for all clients of a device. Unequal
shares can't be expressed.
"""

from typing import Any

from cotenant.planning.exports.model import CannotExpress, Models, shares_of, slug
from cotenant.planning.exports.pods import deployment
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

_DRIVER = "gpu.nvidia.com"
_CONFIG = "resource.nvidia.com/v1beta1"


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`plan.yaml`, ready to apply."""
    from cotenant.planning.exports.yaml_text import documents

    found: list[dict[str, Any]] = []
    for number, device in enumerate(plan.devices):
        found += _claims(device, number)
        for tenant in device.tenants:
            claim = {"name": "gpu", "resourceClaimName": _claim_of(device, number, tenant)}
            claimed = {"claims": [{"name": "gpu"}]}
            found.append(deployment(tenant, models, resources=claimed, pod={"resourceClaims": [claim]}))
    return {"kubernetes.yaml": documents(found)}


def _claims(device: PlannedDevice, number: int) -> list[dict[str, Any]]:
    if device.sharing == "mig":
        return [
            _claim(
                _claim_of(device, number, tenant),
                {"deviceClassName": "mig.nvidia.com", "selectors": [_cel("profile", str(tenant.share))]},
            )
            for tenant in device.tenants
        ]
    exactly: dict[str, Any] = {"deviceClassName": _DRIVER, "selectors": [_cel("productName", device.title)]}
    if device.devices > 1:
        exactly["count"] = device.devices
    return [_claim(_claim_of(device, number, device.tenants[0]), exactly, _sharing(device))]


def _claim(name: str, exactly: dict[str, Any], sharing: dict[str, Any] | None = None) -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if sharing is not None:
        parameters = {"apiVersion": _CONFIG, "kind": "GpuConfig", "sharing": sharing}
        devices["config"] = [{"requests": ["gpu"], "opaque": {"driver": _DRIVER, "parameters": parameters}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }


def _sharing(device: PlannedDevice) -> dict[str, Any] | None:
    if device.sharing == "alone":
        return None
    if device.sharing == "processes":
        return {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
    if device.sharing != "mps":
        raise CannotExpress("kubernetes", f"`{device.sharing}` on {device.name}", "cotenant")
    shares = shares_of(device)
    if len(set(shares)) > 1:
        written = ", ".join(f"{tenant.name} {tenant.share:.0f} %" for tenant in device.tenants if tenant.share)
        raise CannotExpress("kubernetes", f"unequal MPS shares on {device.name} ({written})", "kubernetes-hami")
    config: dict[str, Any] = {"defaultActiveThreadPercentage": int(shares[0]) if shares else 100}
    return {"strategy": "MPS", "mpsConfig": config}


def _cel(attribute: str, value: str) -> dict[str, Any]:
    return {"cel": {"expression": f"device.attributes['{_DRIVER}'].{attribute} == '{value}'"}}


def _claim_of(device: PlannedDevice, number: int, tenant: SeatedTenant) -> str:
    return f"cotenant-{slug(tenant.name)}" if device.sharing == "mig" else f"cotenant-device-{number}"
