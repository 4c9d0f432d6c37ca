"""Requests of a workload on a simulated GPU, from a dry run of the real model that is cached on disk."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from cotenant.devices.single import with_dtype
from cotenant.errors import WorkloadError
from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.fusion import Fusion, Tf32, kernels_of
from cotenant.prediction.kernels.request import RequestKernels, generation, inference, staged, training
from cotenant.prediction.kernels.software import EXECUTIONS, Execution
from cotenant.workloads import find
from cotenant.workloads.models.workload import ModelWorkload
from cotenant.workloads.protocol import Attention, Dtype, StagedWorkload, WorkloadSpec

_KEPT = 256


class Catalogue:
    """Describes workloads of the catalogue, model files and the user's own."""

    def spec(self, spec: WorkloadSpec, usual: Dtype) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else the default."""
        return with_dtype(spec, usual)

    def request(self, spec: WorkloadSpec, execution: Execution | None = None) -> RequestKernels:
        """The kernels of a request, from a dry run."""
        return request_of(spec, execution)

    def family(self, name: str) -> str:
        """Family of a workload."""
        return find(name).family

    def dimensions(self, name: str) -> Mapping[str, Any] | None:
        """The configuration of a language model; None if it is something else."""
        workload = find(name)
        return workload.entry.config if isinstance(workload, ModelWorkload) and workload.family == "decoder" else None


CATALOGUE = Catalogue()


def request_of(spec: WorkloadSpec, execution: Execution | None = None) -> RequestKernels:
    """The request of this spec, whose dtype must be set; executed by its software's defaults unless overridden.

    Raises:
        WorkloadError: Its kernels can't be determined before it runs.
    """
    workload = find(spec.name)
    execution = execution or execution_of(spec)
    if isinstance(workload, StagedWorkload):
        return staged(spec, workload.properties(spec), execution, workload.stage_costs(spec))
    kernels, properties = kernels_for(spec, execution), workload.properties(spec)
    if spec.train:
        return training(spec, properties, execution, kernels)
    if spec.mode != "generate":
        return inference(spec, properties, execution, kernels)
    from cotenant.workloads.protocol import DEFAULT_TOKENS

    prompt = kernels_for(spec.model_copy(update={"mode": "prefill", "tokens": None}), execution)
    return generation(spec, properties, execution, kernels, prompt=prompt, tokens=spec.tokens or DEFAULT_TOKENS)


def execution_of(spec: WorkloadSpec) -> Execution:
    """How its software executes it."""
    usual = EXECUTIONS[spec.software or "eager"]
    rounded = replace(usual, tf32="all") if spec.tf32 else usual
    return replace(rounded, attention="unfused") if spec.attention == "unfused" else rounded


def kernels_for(spec: WorkloadSpec, execution: Execution | None = None) -> Kernels:
    """The kernels of a request of a workload.

    Args:
        spec: The workload, with its dtype.
        execution: Execution mode; None for the default of the spec's software.

    Raises:
        WorkloadError: Its operators can't be traced before it runs.
    """
    executed = execution or execution_of(spec)
    return _kernels_for(spec.model_dump_json(), executed.fusion, executed.tf32, executed.attention)


@lru_cache(maxsize=_KEPT)
def _kernels_for(spec_json: str, fusion: Fusion, tf32: Tf32, attention: Attention) -> Kernels:
    spec = WorkloadSpec.model_validate_json(spec_json)
    operators = find(spec.name).properties(spec).operators
    if not operators:
        raise WorkloadError(
            f"{spec.name} can't be simulated: its operators can't be traced before it runs",
            hint="simulate a model of the catalogue (`cotenant workloads`) or a model file",
        )
    return kernels_of(operators, fusion=fusion, tf32=tf32, attention=attention)
