"""A catalogue model as a workload: checked, described, built."""

from cotenant.errors import WorkloadError
from cotenant.workloads.models.checks import check_model
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.protocol import Built, Place, Properties, WorkloadSpec


class ModelWorkload:
    """One model of the catalogue."""

    def __init__(self, entry: ModelEntry) -> None:
        self.entry = entry
        self.name = entry.name
        self.family: str = entry.family
        self.about = entry.about

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse what can't be run; nothing is built and torch is not imported."""
        check_model(self.entry, spec)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """What one request costs, from a dry run on `meta`."""
        self.check(spec)
        raise WorkloadError(f"{self.name} can't be described yet")

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """The model on the place, ready to serve."""
        from cotenant.workloads.models.building import build_model

        self.check(spec)
        return build_model(self.entry, spec, place)
