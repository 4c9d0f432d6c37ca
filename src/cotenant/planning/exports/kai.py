"""Kubernetes with the KAI scheduler: memory and compute mode per container (NvFractions), or MIG instances.

The GPU-sharing operator holds each container to its memory limit. Pods whose compute modes differ never share a GPU.
"""

from typing import Any

from cotenant.planning.exports.manifests import with_script
from cotenant.planning.exports.model import (
    CannotExpress,
    ExportedDevice,
    ExportedFolder,
    ExportedPlan,
    ExportedTenant,
)
from cotenant.planning.exports.pods import deployment, mig_resource, product
from cotenant.planning.exports.quoting import yaml_documents

TARGET = "kubernetes-kai"
MODES = {"processes": "time-slicing", "mps": "sm-sharing"}
_MIB = 2**20


def export(plan: ExportedPlan) -> ExportedFolder:
    """`kai.yaml`: a deployment per tenant."""
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.percentages:
            raise CannotExpress(TARGET, f"compute shares on {device.name}", "kubernetes-hami")
        if device.sharing not in {"alone", "mig", *MODES}:
            raise CannotExpress(TARGET, f"`{device.sharing}` on {device.name}", "cotenant")
        found += [_tenant(device, tenant) for tenant in device.tenants]
    notes = []
    if any(device.sharing in MODES for device in plan.devices):
        notes.append("needs KAI's gpuSharingMode NvFractions and its GPU-sharing operator, which hold memory limits")
    if sum(device.sharing in MODES for device in plan.devices) > 1:
        notes.append("KAI chooses which tenants of one compute mode share a GPU: it may not be the plan's choice")
    return with_script(plan, {"kai.yaml": yaml_documents(found)}, notes)


def _tenant(device: ExportedDevice, tenant: ExportedTenant) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    annotations = None
    if device.sharing == "mig":
        resources = {"limits": {mig_resource(tenant): 1}}
    elif device.sharing == "alone":
        resources = {"limits": {"nvidia.com/gpu": device.gpus}}
    else:
        prefix = f"nvidia.com/container.{tenant.key}"
        memory = f"{-(-tenant.memory_bytes // _MIB)}Mi"
        annotations = {
            f"{prefix}.gpu-memory.request": memory,
            f"{prefix}.gpu-memory.limit": memory,
            f"{prefix}.gpu-compute.mode": MODES[device.sharing],
        }
    return deployment(
        tenant,
        resources=resources,
        pod={"schedulerName": "kai-scheduler", "nodeSelector": product(device.title)},
        annotations=annotations,
        labels={"kai.scheduler/queue": "default"},
    )
