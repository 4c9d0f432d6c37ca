"""Kubernetes with NVIDIA's device plugin: a configuration for shared GPUs, and a deployment per tenant.

The plugin splits every GPU of a node into the same number of equal replicas and hands them out on request. It supports
neither unequal shares nor a choice of which tenants share.
"""

from collections import Counter
from typing import Any

from cotenant.planning.exports.model import CannotExpress, Models, shares_of, slug
from cotenant.planning.exports.pods import deployment, product
from cotenant.planning.exports.yaml_text import document, documents
from cotenant.planning.mixes.plan import PlannedDevice, ServingPlan

TARGET = "kubernetes-device-plugin"


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`device-plugin.yaml` (a ConfigMap with one configuration per GPU model) and `deployments.yaml`."""
    kinds = Counter(device.kind for device in plan.devices)
    configurations: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if kinds[device.kind] > 1 and device.sharing not in {"alone", "mig"}:
            raise CannotExpress(TARGET, f"who shares which of {kinds[device.kind]} {device.kind}", "kubernetes")
        configurations[slug(device.kind)] = document(_configuration(device))
        for tenant in device.tenants:
            resource = f"nvidia.com/mig-{tenant.share}" if device.sharing == "mig" else _resource(device)
            found.append(
                deployment(
                    tenant,
                    models,
                    resources={"limits": {resource: device.devices}},
                    pod={"nodeSelector": product(device.title)},
                )
            )
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cotenant-device-plugin", "namespace": "nvidia-device-plugin"},
        "data": configurations,
    }
    return {"device-plugin.yaml": document(config), "deployments.yaml": documents(found)}


def _resource(device: PlannedDevice) -> str:
    return "nvidia.com/gpu" if device.sharing == "alone" else "nvidia.com/gpu.shared"


def _configuration(device: PlannedDevice) -> dict[str, Any]:
    if device.sharing == "alone":
        return {"version": "v1"}
    if device.sharing == "mig":
        return {"version": "v1", "flags": {"migStrategy": "mixed"}}
    if device.sharing not in {"processes", "mps"}:
        raise CannotExpress(TARGET, f"`{device.sharing}` on {device.name}", "cotenant")
    shares = shares_of(device)
    if len(set(shares)) > 1:
        written = ", ".join(f"{tenant.name} {tenant.share:.0f} %" for tenant in device.tenants if tenant.share)
        raise CannotExpress(TARGET, f"unequal MPS shares on {device.name} ({written})", "kubernetes-hami")
    way = "timeSlicing" if device.sharing == "processes" else "mps"
    resources = [{"name": "nvidia.com/gpu", "replicas": len(device.tenants)}]
    return {"version": "v1", "sharing": {way: {"renameByDefault": True, "resources": resources}}}
