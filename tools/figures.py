"""Writes src/cotenant/workloads/figures.json from dry runs with the installed torch and transformers.

.venv/bin/python tools/figures.py
"""

from cotenant.study.files import load_study
from cotenant.workloads.catalogue import find, model_entries
from cotenant.workloads.protocol import Figures, WorkloadSpec
from cotenant.workloads.shipped import FILE, written


def specs() -> list[WorkloadSpec]:
    """Every model at its defaults, and the tenants of the largest built-in study."""
    models = [WorkloadSpec(name=entry.name) for entry in model_entries()]
    tenants = [tenant.spec() for tenant in load_study("search-bottlenecks").tenants.values()]
    return list({spec.model_dump_json(): spec for spec in (*models, *tenants)}.values())


def computed() -> str:
    """The file's text, from dry runs."""
    return written([(spec, _figures(spec)) for spec in specs()])


def _figures(spec: WorkloadSpec) -> Figures:
    found = find(spec.name).properties(spec)
    return Figures(found.params, found.weight_bytes, found.flops, found.bytes_moved, found.peak_memory_bytes)


if __name__ == "__main__":
    FILE.write_text(computed(), encoding="utf-8")
