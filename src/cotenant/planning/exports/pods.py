"""Shared by the Kubernetes exports: a deployment per tenant with its resources."""

import re
from collections.abc import Mapping
from typing import Any

from cotenant.planning.exports.model import ExportedTenant

LONGEST_LABEL = 63


def deployment(
    tenant: ExportedTenant,
    *,
    resources: Mapping[str, Any],
    pod: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One replica of a tenant.

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
