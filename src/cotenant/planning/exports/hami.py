"""Kubernetes with HAMi: a part of a GPU's memory and cores per tenant, enforced by its library in the container.

HAMi throttles each tenant to a percentage of the cores. It doesn't use MPS, and shares may be unequal.
"""

from typing import Any

from cotenant.planning.exports.manifests import with_script
from cotenant.planning.exports.model import CannotExpress, ExportedDevice, ExportedFolder, ExportedPlan, ExportedTenant
from cotenant.planning.exports.pods import deployment, product
from cotenant.planning.exports.quoting import yaml_documents

TARGET = "kubernetes-hami"
_MIB = 2**20


def export(plan: ExportedPlan) -> ExportedFolder:
    """`hami.yaml`: a deployment per tenant."""
    found: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.sharing == "mig":
            raise CannotExpress(TARGET, f"the MIG instances on {device.name}", "kubernetes")
        for tenant in device.tenants:
            uuids = [f"REPLACE-WITH-THE-UUID-OF-GPU-{device.index + number}" for number in range(device.gpus)]
            found.append(
                deployment(
                    tenant,
                    resources={"limits": _limits(device, tenant)},
                    pod={"schedulerName": "hami-scheduler", "nodeSelector": product(device.title)},
                    annotations={"nvidia.com/use-gpuuuid": ",".join(uuids)},
                )
            )
    notes = ["write the GPUs' UUIDs in place of REPLACE-WITH-THE-UUID-OF-GPU"]
    if any(device.sharing == "mps" for device in plan.devices):
        notes.append("MPS isn't used: HAMi throttles each tenant to its cores, so times differ from the plan's")
    return with_script(plan, {"hami.yaml": yaml_documents(found)}, notes)


def _limits(device: ExportedDevice, tenant: ExportedTenant) -> dict[str, int]:
    limits = {"nvidia.com/gpu": device.gpus}
    if device.sharing != "alone":
        limits["nvidia.com/gpumem"] = -(-tenant.memory_bytes // _MIB)
    if tenant.percentage is not None:
        limits["nvidia.com/gpucores"] = tenant.percentage
    return limits
