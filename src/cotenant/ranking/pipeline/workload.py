"""One step of a model search as a workload: load a candidate, extract features from some batches, score them.

Stages of a request: load_model, model_to_device, first_batch (all of the first batch), then for each further batch
load_data, data_to_device, inference, to_host, and at the end score.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.ranking.pipeline.options import HEAD, SearchOptions, checked
from cotenant.workloads.descriptions import remembered
from cotenant.workloads.protocol import Built, Place, Properties, Stage, StageCost, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.ranking.pipeline.stages import SearchStages


STAGES = (
    "load_model",
    "model_to_device",
    "first_batch",
    "load_data",
    "data_to_device",
    "inference",
    "to_host",
    "score",
)


@dataclass(frozen=True, slots=True)
class SearchPipeline:
    """The workload `search-pipeline`."""

    name: str = "search-pipeline"
    family: str = "search"
    about: str = "load a `candidate`, extract features from `batches` (50) of `data`, score them with `classes`"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse what can't run; neither data nor weights are read."""
        checked(spec)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """The cost of one request, from a dry run of one batch; float32 unless the spec says otherwise."""
        if "candidate" not in spec.params:
            return Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=None)
        entry, options = checked(spec)
        described = _on_the_device(spec, options)

        from cotenant.ranking.pipeline.request_costs import describe

        return remembered(described, {**entry.config, "pipeline": _code()}, lambda: describe(entry, described, options))

    def stage_costs(self, spec: WorkloadSpec) -> tuple[StageCost, ...]:
        """The cost of each stage of one request on a device and its host, in order; host times are estimates."""
        from cotenant.ranking.pipeline.request_costs import stage_costs

        entry, options = checked(spec)
        return stage_costs(entry, spec, options, self.properties(spec))

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Write the weights file, open the data, and be ready to serve."""
        from cotenant.ranking.pipeline.stages import set_up

        entry, options = checked(spec)
        shared = set_up(entry, spec, options, device=place.torch_device, dtype=spec.dtype or place.default_dtype)
        return Built(
            stages=_stages(shared, options),
            dtype=spec.dtype or place.default_dtype,
            weights=entry.weights or f"random({spec.seed})",
            seq=shared.seq,
            facts=shared.facts,
            close=shared.close,
        )


def _stages(shared: "SearchStages", options: SearchOptions) -> tuple[Stage, ...]:
    one_batch = (
        Stage("load_data", shared.load_data),
        Stage("data_to_device", shared.data_to_device),
        Stage("inference", shared.inference),
        Stage("to_host", shared.to_host),
    )
    return (
        Stage("load_model", shared.load_model),
        Stage("model_to_device", shared.model_to_device),
        Stage("first_batch", shared.first_batch, first_output=True),
        *one_batch * (options.batches - 1),
        Stage("score", shared.score),
    )


def _on_the_device(spec: WorkloadSpec, options: SearchOptions) -> WorkloadSpec:
    """The spec without what only the host does: requests that differ in nothing else are described once."""
    kept = {"candidate", "batches", "heads", "joined"} | ({"classes"} if options.joined == HEAD else set())
    params = {name: value for name, value in spec.params.items() if name in kept}
    return spec.model_copy(update={"mode": None, "params": params})


@cache
def _code() -> str:
    """Identity of the code in this package that a description depends on."""
    import hashlib

    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


WORKLOADS = (SearchPipeline(),)
