"""A model as a workload: checked, described, built."""

from dataclasses import replace

from cotenant.workloads.models.checks import check_model
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.libraries import LIBRARIES, described_without
from cotenant.workloads.properties import remembered
from cotenant.workloads.protocol import Built, Place, Properties, WorkloadSpec


class ModelWorkload:
    """One model: from the catalogue, a library, or a user's directory."""

    def __init__(self, entry: ModelEntry) -> None:
        self.entry = entry
        self.name = entry.name
        self.family: str = entry.family
        self.about = entry.about

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse what can't run; nothing is built and torch is not imported."""
        check_model(self.entry, spec)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """The cost of one request, from a dry run on `meta`; float32 unless the spec says otherwise."""
        self.check(spec)
        entry = self._describable(self.sized(spec))

        def describe() -> Properties:
            from cotenant.workloads.models.describing import describe

            return describe(entry, spec)

        return remembered(spec, {**entry.config, "described_image": entry.image}, describe)

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """The model on the place, ready to serve."""
        from cotenant.workloads.models.building import build_model

        self.check(spec)
        if self.entry.weights is not None and spec.weights is None:
            spec = spec.model_copy(update={"weights": self.entry.weights})
        return build_model(self.sized(spec), spec, place)

    def _describable(self, entry: ModelEntry) -> ModelEntry:
        """A library's model by the catalogue's definition where there is one: the same with or without the library."""
        known = described_without(entry) if entry.architecture.module in LIBRARIES else None
        return known or entry

    def sized(self, spec: WorkloadSpec) -> ModelEntry:
        """The entry with the spec's tables or image size."""
        if "rows" in spec.params:
            tables = (spec.params["rows"],) * len(self.entry.config["tables"])
            return replace(self.entry, config={**self.entry.config, "tables": tables})
        if "image" in spec.params:
            side = int(spec.params["image"])
            # Models with positions have one per image patch: the configuration must match.
            known = {"image_size": side} if isinstance(self.entry.config.get("image_size"), int) else {}
            return replace(self.entry, image=side, config={**self.entry.config, **known})
        return self.entry
