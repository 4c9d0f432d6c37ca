"""Figures that ship with the package: a dry run imports torch and takes up to seconds per model.

`figures.json` has every model at its defaults and the tenants of `search-bottlenecks`, each on a line, and the versions
of the libraries whose operators were counted. With other versions nothing in it is used, without them everything.
`make figures` writes it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from cotenant.extras import installed
from cotenant.workloads.protocol import Figures, WorkloadSpec

FILE = Path(__file__).with_name("figures.json")
LIBRARIES = ("torch", "transformers")


def shipped(spec: WorkloadSpec) -> Figures | None:
    """The figures of this spec; None if they don't ship, or not for the installed libraries."""
    return _known().get(_key(spec))


def written(described: Iterable[tuple[WorkloadSpec, Figures]]) -> str:
    """The file's text."""
    lines = [json.dumps({"spec": json.loads(_key(spec)), **asdict(figures)}) for spec, figures in described]
    return '{"versions": ' + json.dumps(_versions()) + ', "figures": [\n' + ",\n".join(lines) + "\n]}\n"


@cache
def _known() -> Mapping[str, Figures]:
    data = json.loads(FILE.read_text(encoding="utf-8"))
    if all(installed(name) for name in LIBRARIES) and data["versions"] != _versions():
        return {}
    return {json.dumps(line.pop("spec"), sort_keys=True): Figures(**line) for line in data["figures"]}


def _versions() -> dict[str, str]:
    """Builds of a version (CPU, CUDA) have the same operators."""
    return {name: version(name).partition("+")[0] for name in LIBRARIES}


def _key(spec: WorkloadSpec) -> str:
    return json.dumps(spec.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
