"""cotenant itself: the plan, and a study for each device that measures what the plan predicts."""

from typing import Any

from cotenant.planning.exports.model import Models, slug
from cotenant.planning.exports.yaml_text import document
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan, to_document


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`plan.yaml`, and `measure-N.yaml` for `cotenant run`."""
    runs = {name: model.runs for name, model in models.items() if model.runs is not None}
    files = {"plan.yaml": document(to_document(plan, runs))}
    for number, device in enumerate(plan.devices):
        if device.devices == 1 and all(tenant.rate_rps > 0 for tenant in device.tenants):
            files[f"measure-{number}.yaml"] = document(_study(device, models))
    return files


def _study(device: PlannedDevice, models: Models) -> dict[str, Any]:
    names = [slug(tenant.name) for tenant in device.tenants]
    shares = [tenant.share for tenant in device.tenants]
    split = all(share is not None for share in shares)
    study: dict[str, Any] = {
        "about": f"What the plan expects of {device.name}, measured.",
        "device": device.kind,
        "tenants": {name: _tenant(one, models) for name, one in zip(names, device.tenants, strict=True)},
    }
    if len(names) > 1:
        study["mixes"] = [{"groups": {"plan": names}}]
        study["sharing"] = [{device.sharing: shares} if split else device.sharing]
    else:
        study["mixes"] = ["solo"]
    return study


def _tenant(tenant: SeatedTenant, models: Models) -> dict[str, Any]:
    model = models[tenant.tenant]
    entry: dict[str, Any] = {"workload": model.workload, "batch": tenant.batch}
    for key in ("seq", "dtype", "weights"):
        if getattr(model, key) is not None:
            entry[key] = getattr(model, key)
    if model.generates:
        entry |= {"mode": "generate", **({"tokens": model.tokens} if model.tokens else {})}
    entry["load"] = f"poisson({tenant.rate_rps / tenant.batch:.6g})"
    latency = [kept for kept in tenant.kept if kept.objective.startswith("p")]
    if latency:
        entry["slo"] = {"latency": f"{latency[0].limit_ms:g}ms", "quantile": latency[0].objective}
    if tenant.priority:
        entry["priority"] = tenant.priority
    return entry
