"""Export for cotenant itself: the plan, and a study per device that measures its predictions."""

from cotenant.planning.exports.model import ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import yaml_document
from cotenant.planning.mixes.study import study_of


def export(plan: ExportedPlan) -> ExportedFolder:
    """`plan.yaml`, and `measure-N.yaml` for `cotenant run`."""
    document = plan.document()
    files = {"plan.yaml": yaml_document(document.to_data())}
    for device in plan.devices:
        if device.gpus == 1:
            about = f"What the plan expects of {device.name}, measured."
            study = study_of(document.devices[device.number], about=about)
            files[f"measure-{device.number}.yaml"] = yaml_document(study)
    devices = ", ".join(device.name for device in plan.devices)
    notes = ["serve it with cotenant serve plan.yaml --device NAME, one server per device: " + devices]
    return ExportedFolder(files, tuple(notes))
