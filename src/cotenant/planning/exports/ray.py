"""Ray Serve: a deployment per tenant with a fraction of a GPU, and a placement group per device.

Ray's fractions only account: they decide which tenants share a GPU, not how much of it each gets.
"""

from cotenant.planning.exports.model import CannotExpress, ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import yaml_document


def export(plan: ExportedPlan) -> ExportedFolder:
    """`serve.yaml` for `serve deploy`."""
    applications = []
    for device in plan.devices:
        if device.sharing == "mig":
            raise CannotExpress("ray", f"the MIG instances on {device.name}", "kubernetes")
        if device.sharing == "mps":
            raise CannotExpress("ray", f"MPS on {device.name}: its actors don't join an MPS daemon", "shell")
        fraction = 1.0 if len(device.tenants) == 1 else int(1e4 / len(device.tenants)) / 1e4
        for tenant in device.tenants:
            name = tenant.key
            options = {"num_gpus": fraction * device.gpus, "resources": {f"cotenant_device_{device.number}": 0.001}}
            applications.append(
                {
                    "name": name,
                    "route_prefix": f"/{name}",
                    "import_path": f"REPLACE.{tenant.workload_key.replace('-', '_')}:app",
                    "deployments": [
                        {
                            "name": name,
                            "num_replicas": 1,
                            "max_ongoing_requests": max(2 * tenant.at_once, 2),
                            "ray_actor_options": options,
                        }
                    ],
                }
            )
    notes = [
        "name your applications in place of REPLACE, then run serve deploy serve.yaml; serve shutdown stops them",
        "start each node with --resources that name its devices: cotenant_device_N",
        "neither memory nor compute is limited: fractions only decide which tenants share a GPU",
    ]
    return ExportedFolder({"serve.yaml": yaml_document({"applications": applications})}, tuple(notes))
