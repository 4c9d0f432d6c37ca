"""What a request of each workload costs, looked up once per run."""

from cotenant import workloads
from cotenant.workloads.protocol import Properties, WorkloadSpec


class PropertyCache:
    """Caches the properties of the workloads of a run."""

    def __init__(self) -> None:
        self._properties: dict[str, Properties] = {}

    def properties(self, spec: WorkloadSpec) -> Properties:
        """From memory, or by a dry run of the workload."""
        key = spec.model_dump_json()
        if key not in self._properties:
            self._properties[key] = workloads.find(spec.name).properties(spec)
        return self._properties[key]
