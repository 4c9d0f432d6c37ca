"""Kubernetes with HAMi: a part of a GPU's memory and cores per tenant, enforced by its library in the container.

HAMi throttles each tenant to a percentage of the cores. It doesn't use MPS, and shares may be unequal.
"""

from typing import Any

from cotenant.planning.exports.model import CannotExpress, Models, gpu_index
from cotenant.planning.exports.pods import deployment, product
from cotenant.planning.exports.yaml_text import documents
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

TARGET = "kubernetes-hami"
_MIB = 2**20


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`hami.yaml`: a deployment per tenant."""
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.sharing == "mig":
            raise CannotExpress(TARGET, f"the MIG instances on {device.name}", "kubernetes")
        for tenant in device.tenants:
            first = gpu_index(plan, device)
            uuids = [f"REPLACE-WITH-THE-UUID-OF-GPU-{first + number}" for number in range(device.devices)]
            found.append(
                deployment(
                    tenant,
                    models,
                    resources={"limits": _limits(device, tenant)},
                    pod={"schedulerName": "hami-scheduler", "nodeSelector": product(device.title)},
                    annotations={"nvidia.com/use-gpuuuid": ",".join(uuids)},
                )
            )
    return {"hami.yaml": documents(found)}


def _limits(device: PlannedDevice, tenant: SeatedTenant) -> dict[str, int]:
    limits = {"nvidia.com/gpu": device.devices}
    if device.sharing != "alone":
        limits["nvidia.com/gpumem"] = -(-tenant.memory_bytes // _MIB)
    if isinstance(tenant.share, float):
        limits["nvidia.com/gpucores"] = int(tenant.share)
    return limits
