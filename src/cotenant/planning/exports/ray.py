"""Ray Serve: a deployment per tenant with a fraction of a GPU, and a placement group per device.

Ray's fractions only account: they decide which tenants share a GPU, not how much of it each gets.
"""

from cotenant.planning.exports.model import CannotExpress, Models, shares_of, slug
from cotenant.planning.exports.yaml_text import document
from cotenant.planning.mixes.plan import ServingPlan


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`serve.yaml` for `serve deploy`."""
    applications = []
    for number, device in enumerate(plan.devices):
        if device.sharing == "mig":
            raise CannotExpress("ray", f"the MIG instances on {device.name}", "kubernetes")
        if shares_of(device):
            raise CannotExpress("ray", f"MPS shares on {device.name}", "shell")
        fraction = 1.0 if len(device.tenants) == 1 else int(1e4 / len(device.tenants)) / 1e4
        for tenant in device.tenants:
            name = slug(tenant.name)
            options = {"num_gpus": fraction * device.devices, "resources": {f"cotenant_device_{number}": 0.001}}
            applications.append(
                {
                    "name": name,
                    "route_prefix": f"/{name}",
                    "import_path": f"REPLACE.{slug(models[tenant.tenant].workload).replace('-', '_')}:app",
                    "deployments": [
                        {
                            "name": name,
                            "num_replicas": 1,
                            "max_ongoing_requests": max(2 * tenant.batch, 2),
                            "ray_actor_options": options,
                        }
                    ],
                }
            )
    return {"serve.yaml": document({"applications": applications})}
