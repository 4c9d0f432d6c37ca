"""Errors of simulated figures by class, as recorded by the run."""

from collections.abc import Mapping
from typing import Any


def errors_by_class(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Sentences by class; empty for a measured run."""
    simulation = manifest.get("simulation")
    errors = simulation.get("error_by_class") if isinstance(simulation, Mapping) else None
    if not isinstance(errors, Mapping):
        return {}
    return {str(kind): "; ".join(map(str, said)) for kind, said in errors.items() if isinstance(said, list) and said}
