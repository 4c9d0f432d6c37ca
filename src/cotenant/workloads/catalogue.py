"""All named workloads: models, kernels and instruments, described without importing torch."""

import re
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from cotenant import extras
from cotenant.errors import WorkloadError
from cotenant.text import did_you_mean
from cotenant.workloads.models.decoders import DECODERS
from cotenant.workloads.models.directory import directory_entry
from cotenant.workloads.models.encoders import ENCODERS
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.libraries import LIBRARIES, library_entry
from cotenant.workloads.models.recommender import RECOMMENDERS
from cotenant.workloads.models.seq2seq import SEQ2SEQ
from cotenant.workloads.models.vision import VISION
from cotenant.workloads.models.workload import ModelWorkload
from cotenant.workloads.protocol import Figures, Workload, WorkloadSpec
from cotenant.workloads.shipped import shipped

HUB = "huggingface.co/"


class ListedWorkload(Workload, Protocol):
    """A workload that can be listed."""

    @property
    def about(self) -> str:
        """One line about it."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadEntry:
    """One entry of the catalogue."""

    name: str
    family: str
    about: str
    params: int | None = None
    """The published number of parameters."""
    counted: str = ""
    """What that number includes."""
    source: str = ""
    """Where it was published."""
    mini: str | None = None
    """Name of the small sibling."""
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """A catalogue entry, and the cost of a request."""

    entry: WorkloadEntry
    properties: Figures

    def to_json(self) -> dict[str, Any]:
        """As plain data, without the operators."""
        cost = self.properties
        return asdict(self.entry) | {
            "params": cost.params,
            "published_params": self.entry.params,
            "flops_per_request": cost.flops,
            "bytes_per_request": cost.bytes_moved,
            "flops_per_byte": cost.intensity,
            "peak_memory_bytes": cost.peak_memory_bytes,
        }


def _is_folder(name: str) -> bool:
    try:
        return Path(name).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):  # too long, of an unknown user, or no name of a file at all
        return False


def find(name: str) -> Workload:
    """Return the workload with this name: from the catalogue, or the user's own (a callable, directory, command...)."""
    known = _workloads()
    if name in known:
        return known[name]
    if name.startswith(tuple(f"{library}:" for library in LIBRARIES)):
        return ModelWorkload(library_entry(name))
    if _is_folder(name):
        return ModelWorkload(directory_entry(name))
    from cotenant.workloads.yours import recognise

    yours = recognise(name)
    if yours is not None:
        return yours
    hint = did_you_mean(name, known, most=3, cutoff=0.5) or "`cotenant workloads` lists all"
    raise WorkloadError(f"there is no workload {name!r}", hint=hint)


def modules_of(name: str) -> tuple[str, ...]:
    """Modules that building this workload imports, as far as the catalogue knows: the slow part of a start."""
    known = _workloads().get(name)
    if known is not None and known.family == "kernel":
        return ("torch",)
    try:
        workload = find(name)
    except WorkloadError:
        return ()  # building it will say why
    return _MODELS_IMPORT if isinstance(workload, ModelWorkload) else ()


def require_packages(name: str) -> None:
    """Refuse a workload that can't be built here because an extra is missing.

    Raises:
        MissingExtra: With the command that installs it.
    """
    for module in modules_of(name):
        package = module.partition(".")[0]
        if package in extras.EXTRAS:
            extras.require(package, f"running {name}")


def catalogue() -> tuple[WorkloadEntry, ...]:
    """All named workloads by family, without the user's own."""
    return tuple(_line(workload) for workload in _workloads().values())


_ENDING = re.compile(r"(?<=\w{4})(?:ors?|ers?|ions?|ing|ed|s)$")
"""`detector` finds what detects."""


def matching(words: str) -> list[WorkloadEntry]:
    """Entries whose name, family or description contains all of these words, whatever their ending."""
    stems = [_ENDING.sub("", word) for word in words.lower().split()]
    return [
        entry
        for entry in catalogue()
        if all(stem in f"{entry.name} {entry.family} {entry.about}".lower() for stem in stems)
    ]


def published(name: str) -> tuple[str | None, int | None]:
    """A named model's hub id, and its default tokens per item; None where it has none."""
    workload = _workloads().get(name)
    if not isinstance(workload, ModelWorkload):
        return None, None
    model = workload.entry
    on_hub = model.mini_of is None and model.source.startswith(HUB)
    return model.source.removeprefix(HUB) if on_hub else None, model.seq


def described(entry: WorkloadEntry) -> WorkloadInfo:
    """The entry with the cost of a request at its defaults."""
    return WorkloadInfo(entry, figures(WorkloadSpec(name=entry.name)))


def figures(spec: WorkloadSpec) -> Figures:
    """The main figures of a request's cost: those that ship with the package, or of a dry run."""
    return shipped(spec) or find(spec.name).properties(spec)


def _line(workload: ListedWorkload) -> WorkloadEntry:
    if not isinstance(workload, ModelWorkload):
        return WorkloadEntry(workload.name, workload.family, workload.about)
    model = workload.entry
    return WorkloadEntry(
        name=model.name,
        family=model.family,
        about=model.about,
        params=model.params,
        counted=model.counted,
        source=model.source,
        mini=f"{model.name}-mini" if model.mini_of is None else None,
        modes=model.modes,
    )


def model_entries() -> tuple[ModelEntry, ...]:
    """Every model at full size, each followed by its small sibling."""
    return tuple(
        entry for full in (*ENCODERS, *DECODERS, *SEQ2SEQ, *VISION, *RECOMMENDERS) for entry in (full, full.small())
    )


@cache
def generators() -> frozenset[str]:
    """Models that can generate tokens."""
    return frozenset(entry.name for entry in model_entries() if "generate" in entry.modes)


_ROOMS = ("cotenant.workloads.kernels", "cotenant.ranking.pipeline.workload", "cotenant.workloads.instrument")
"""Modules with workloads, by name because `ranking` is a higher layer."""


_MODELS_IMPORT = ("torch", "transformers.modeling_utils", "cotenant.workloads.models.building")


@cache
def _workloads() -> dict[str, ListedWorkload]:
    models: tuple[ListedWorkload, ...] = tuple(ModelWorkload(entry) for entry in model_entries())
    others: tuple[ListedWorkload, ...] = tuple(
        workload for room in _ROOMS for workload in import_module(room).WORKLOADS
    )
    return {workload.name: workload for workload in (*models, *others)}
