"""Kubernetes with NVIDIA's device plugin: a configuration for shared GPUs, and a deployment per tenant.

The plugin splits every GPU of a node into the same number of equal replicas and hands them out on request. It supports
neither unequal shares nor a choice of which tenants share.
"""

from collections import Counter
from typing import Any

from cotenant.planning.exports.manifests import with_script
from cotenant.planning.exports.model import CannotExpress, ExportedDevice, ExportedFolder, ExportedPlan, slug
from cotenant.planning.exports.pods import deployment, mig_resource, product
from cotenant.planning.exports.quoting import yaml_document, yaml_documents

TARGET = "kubernetes-device-plugin"


def export(plan: ExportedPlan) -> ExportedFolder:
    """`device-plugin.yaml` (a ConfigMap with one configuration per GPU model) and `deployments.yaml`."""
    kinds = Counter(device.kind for device in plan.devices)
    configurations: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if kinds[device.kind] > 1 and device.sharing not in {"alone", "mig"}:
            raise CannotExpress(TARGET, f"who shares which of {kinds[device.kind]} {device.kind}", "kubernetes")
        configurations[slug(device.kind)] = yaml_document(_configuration(device))
        for tenant in device.tenants:
            resource = mig_resource(tenant) if device.sharing == "mig" else _resource(device)
            found.append(
                deployment(
                    tenant,
                    resources={"limits": {resource: device.gpus}},
                    pod={"nodeSelector": product(device.title)},
                )
            )
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cotenant-device-plugin", "namespace": "nvidia-device-plugin"},
        "data": configurations,
    }
    manifests = {"device-plugin.yaml": yaml_document(config), "deployments.yaml": yaml_documents(found)}
    notes = [
        "point the plugin at the ConfigMap, and label nodes with the configuration of their GPU",
        "memory isn't limited: every replica sees the whole GPU",
    ]
    return with_script(plan, manifests, notes)


def _resource(device: ExportedDevice) -> str:
    return "nvidia.com/gpu" if device.sharing == "alone" else "nvidia.com/gpu.shared"


def _configuration(device: ExportedDevice) -> dict[str, Any]:
    if device.sharing == "alone":
        return {"version": "v1"}
    if device.sharing == "mig":
        return {"version": "v1", "flags": {"migStrategy": "mixed"}}
    if device.sharing not in {"processes", "mps"}:
        raise CannotExpress(TARGET, f"`{device.sharing}` on {device.name}", "cotenant")
    if len(set(device.percentages)) > 1:
        written = ", ".join(f"{tenant.name} {tenant.percentage} %" for tenant in device.tenants)
        raise CannotExpress(TARGET, f"unequal MPS shares on {device.name} ({written})", "kubernetes-hami")
    way = "timeSlicing" if device.sharing == "processes" else "mps"
    resources = [{"name": "nvidia.com/gpu", "replicas": len(device.tenants)}]
    return {"version": "v1", "sharing": {way: {"renameByDefault": True, "resources": resources}}}
