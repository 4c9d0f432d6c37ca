"""Export for cotenant itself: the plan, and a study per device that measures its predictions."""

from cotenant.planning.exports.model import Models
from cotenant.planning.exports.yaml_text import document
from cotenant.planning.mixes.plan import ServingPlan, to_document
from cotenant.planning.mixes.study import study_of


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`plan.yaml`, and `measure-N.yaml` for `cotenant run`."""
    runs = {name: model.runs for name, model in models.items() if model.runs is not None}
    whole = to_document(plan, runs)
    files = {"plan.yaml": document(whole)}
    for number, (planned, device) in enumerate(zip(whole["devices"], plan.devices, strict=True)):
        if device.devices == 1:
            about = f"What the plan expects of {device.name}, measured."
            files[f"measure-{number}.yaml"] = document(study_of(planned, about=about))
    return files
