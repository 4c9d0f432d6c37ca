"""Kubernetes: a claim per device (dynamic resource allocation, resource.k8s.io/v1) and a deployment per tenant.

Sharing is configured in the claim for NVIDIA's driver, with an equal MPS percentage for all clients. Unequal
shares can't be expressed.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from cotenant.planning.exports.model import (
    CannotExpress,
    ExportedDevice,
    ExportedFolder,
    ExportedPlan,
    ExportedTenant,
    slug,
)
from cotenant.planning.exports.quoting import cel_string, shell_words, yaml_document, yaml_documents

_DRIVER = "gpu.nvidia.com"
_CONFIG = "resource.nvidia.com/v1beta1"


def for_kubernetes(plan: ExportedPlan) -> ExportedFolder:
    """`kubernetes.yaml`."""
    documents: list[dict[str, Any]] = []
    for device in plan.devices:
        documents.append(_claim(device))
        claim = {"name": "gpu", "resourceClaimName": _name(device)}
        for tenant in device.tenants:
            claimed = {"name": "gpu", **({"request": tenant.key} if device.sharing == "mig" else {})}
            documents.append(deployment(tenant, resources={"claims": [claimed]}, pod={"resourceClaims": [claim]}))
    return with_script(plan, {"kubernetes.yaml": yaml_documents(documents)}, _notes(plan))


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
    """A claim per device, so that its tenants share it: instances of a claim come from the same GPU."""
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


# --- shared by the Kubernetes exports: a deployment per tenant with its resources

LONGEST_LABEL = 63


def deployment(
    tenant: ExportedTenant,
    *,
    resources: Mapping[str, Any],
    pod: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A replica of a tenant.

    Args:
        tenant: The tenant.
        resources: The container's resources.
        pod: Additional pod specification: claims, node selectors, a scheduler.
        annotations: The pod's annotations.
        labels: The pod's labels besides its name.
    """
    name = tenant.key
    own = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "cotenant"}
    container = {
        "name": name,
        "image": f"REPLACE-WITH-THE-IMAGE-OF/{tenant.workload_key}",
        "env": [
            {"name": "COTENANT_BATCH", "value": str(tenant.items_at_once)},
            {"name": "COTENANT_PRIORITY", "value": str(tenant.priority)},
        ],
        "resources": dict(resources),
    }
    metadata: dict[str, Any] = {"labels": {**own, **(labels or {})}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": own},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": own},
            "template": {"metadata": metadata, "spec": {"containers": [container], **(pod or {})}},
        },
    }


def product(title: str) -> dict[str, str]:
    """Node selector for a GPU model, as labelled by GPU feature discovery."""
    label = re.sub("[^A-Za-z0-9._-]", "-", title.removeprefix("NVIDIA "))[:LONGEST_LABEL]
    return {"nvidia.com/gpu.product": label.strip("-._")}


def mig_resource(tenant: ExportedTenant) -> str:
    """The resource of a MIG instance; a profile's `+` becomes a dot."""
    return f"nvidia.com/mig-{tenant.profile}".replace("+", ".")


# --- kubernetes with HAMi: a part of a GPU's memory and cores per tenant, enforced by its library in the container

HAMI = "kubernetes-hami"


def for_hami(plan: ExportedPlan) -> ExportedFolder:
    """`hami.yaml`: a deployment per tenant."""
    documents: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.sharing == "mig":
            raise CannotExpress(HAMI, f"the MIG instances on {device.name}", "kubernetes")
        for tenant in device.tenants:
            uuids = [f"REPLACE-WITH-THE-UUID-OF-GPU-{device.index + number}" for number in range(device.gpus)]
            documents.append(
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
    return with_script(plan, {"hami.yaml": yaml_documents(documents)}, notes)


def _limits(device: ExportedDevice, tenant: ExportedTenant) -> dict[str, int]:
    limits = {"nvidia.com/gpu": device.gpus}
    if device.sharing != "alone":
        limits["nvidia.com/gpumem"] = -(-tenant.memory_bytes // 2**20)
    if tenant.percentage is not None:
        limits["nvidia.com/gpucores"] = tenant.percentage
    return limits


# --- kubernetes with the KAI scheduler: memory and compute mode per container (NvFractions), or MIG instances

_MIB = 2**20
KAI = "kubernetes-kai"
MODES = {"processes": "time-slicing", "mps": "sm-sharing"}


def for_kai(plan: ExportedPlan) -> ExportedFolder:
    """`kai.yaml`: a deployment per tenant."""
    documents: list[dict[str, Any]] = []
    for device in plan.devices:
        if device.percentages:
            raise CannotExpress(KAI, f"compute shares on {device.name}", "kubernetes-hami")
        documents += [_kai_tenant(device, tenant) for tenant in device.tenants]
    notes = []
    if any(device.sharing in MODES for device in plan.devices):
        notes.append("needs KAI's gpuSharingMode NvFractions and its GPU-sharing operator, which hold memory limits")
    if sum(device.sharing in MODES for device in plan.devices) > 1:
        notes.append("KAI chooses which tenants of one compute mode share a GPU: it may not be the plan's choice")
    return with_script(plan, {"kai.yaml": yaml_documents(documents)}, notes)


def _kai_tenant(device: ExportedDevice, tenant: ExportedTenant) -> dict[str, Any]:
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


# --- kubernetes with NVIDIA's device plugin: a configuration for shared GPUs, and a deployment per tenant

DEVICE_PLUGIN = "kubernetes-device-plugin"


def for_device_plugin(plan: ExportedPlan) -> ExportedFolder:
    """`device-plugin.yaml` (a ConfigMap with a configuration per GPU model) and `deployments.yaml`."""
    kinds = Counter(device.kind for device in plan.devices)
    configurations: dict[str, str] = {}
    documents: list[dict[str, Any]] = []
    for device in plan.devices:
        if kinds[device.kind] > 1 and device.sharing not in {"alone", "mig"}:
            raise CannotExpress(DEVICE_PLUGIN, f"who shares which of {kinds[device.kind]} {device.kind}", "kubernetes")
        configurations[slug(device.kind)] = yaml_document(_configuration(device))
        for tenant in device.tenants:
            resource = mig_resource(tenant) if device.sharing == "mig" else _resource(device)
            documents.append(
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
    manifests = {"device-plugin.yaml": yaml_document(config), "deployments.yaml": yaml_documents(documents)}
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
    if len(set(device.percentages)) > 1:
        written = ", ".join(f"{tenant.name} {tenant.percentage} %" for tenant in device.tenants)
        raise CannotExpress(DEVICE_PLUGIN, f"unequal MPS shares on {device.name} ({written})", "kubernetes-hami")
    way = "timeSlicing" if device.sharing == "processes" else "mps"
    resources = [{"name": "nvidia.com/gpu", "replicas": len(device.tenants)}]
    return {"version": "v1", "sharing": {way: {"renameByDefault": True, "resources": resources}}}


# --- `plan.sh` for a cluster: applies manifests tenant by tenant, and deletes them

IMAGES = "images are still to be named: write yours in place of REPLACE-WITH-THE-IMAGE-OF"


def with_script(plan: ExportedPlan, manifests: Mapping[str, str], notes: Sequence[str] = ()) -> ExportedFolder:
    """Manifests and the script that applies them."""
    keys = [tenant.key for device in plan.devices for tenant in device.tenants]
    library = files(__package__).joinpath("manifests.sh").read_text(encoding="utf-8")
    lines = [f"manifests=({shell_words(list(manifests))})", f"tenants=({shell_words(keys)})", 'main "$@"']
    return ExportedFolder(
        files={**manifests, "plan.sh": f"{library}\n# --- the plan\n\n" + "\n".join(lines) + "\n"},
        notes=(IMAGES, *notes, *_unheld(plan)),
    )


def _unheld(plan: ExportedPlan) -> list[str]:
    """What no Kubernetes target sets."""
    notes = []
    if any(device.clock_mhz or device.power_limit_w for device in plan.devices):
        notes.append("clocks and power limits aren't set: set them on the nodes with nvidia-smi")
    if any(tenant.priority for device in plan.devices for tenant in device.tenants):
        notes.append("priorities are only passed on as COTENANT_PRIORITY: pods on a GPU don't order requests")
    return notes
