"""Kubernetes with the KAI scheduler: fractions of a GPU by memory, or MIG instances.

A fraction only accounts for memory: nothing enforces it, and time is sliced evenly whatever the fraction.
"""

from typing import Any

from cotenant.planning.exports.model import CannotExpress, Models, memory_share, shares_of
from cotenant.planning.exports.pods import deployment, product
from cotenant.planning.exports.yaml_text import documents
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

TARGET = "kubernetes-kai"
LEAST = 0.01


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`kai.yaml`: a deployment per tenant."""
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.sharing not in {"alone", "processes", "mig"}:
            what = "compute shares" if shares_of(device) else f"`{device.sharing}`"
            other = "kubernetes-hami" if shares_of(device) else "kubernetes"
            raise CannotExpress(TARGET, f"{what} on {device.name}", other)
        strict = [tenant.name for tenant in device.tenants if tenant.isolated and device.sharing == "processes"]
        if strict:
            raise CannotExpress(TARGET, f"isolated memory for {strict[0]} (this needs HAMi-core)", "kubernetes-hami")
        found += [_tenant(device, tenant, models) for tenant in device.tenants]
    return {"kai.yaml": documents(found)}


def _tenant(device: PlannedDevice, tenant: SeatedTenant, models: Models) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    annotations = None
    if device.sharing == "mig":
        resources = {"limits": {f"nvidia.com/mig-{tenant.share}": 1}}
    elif device.sharing == "alone":
        resources = {"limits": {"nvidia.com/gpu": device.devices}}
    else:
        annotations = {"gpu-fraction": f"{max(memory_share(device, tenant), LEAST):.2f}"}
    return deployment(
        tenant,
        models,
        resources=resources,
        pod={"schedulerName": "kai-scheduler", "nodeSelector": product(device.title)},
        annotations=annotations,
        labels={"kai.scheduler/queue": "default"},
    )
