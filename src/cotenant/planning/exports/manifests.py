"""`plan.sh` for a cluster: applies manifests, one tenant after the other, and deletes them."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from cotenant.planning.exports.model import ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import shell_words

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
