"""How far simulated figures of each class were from measured ones, as the run recorded it."""

from collections.abc import Mapping
from typing import Any


def errors_by_class(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Sentences by class; none for a run that was measured."""
    simulation = manifest.get("simulation")
    errors = simulation.get("error_by_class") if isinstance(simulation, Mapping) else None
    if not isinstance(errors, Mapping):
        return {}
    return {str(kind): "; ".join(map(str, said)) for kind, said in errors.items() if isinstance(said, list) and said}
