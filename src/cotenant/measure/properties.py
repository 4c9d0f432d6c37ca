"""The cost of a request of each workload on a device, looked up once per run."""

from cotenant import workloads
from cotenant.devices.protocol import Device
from cotenant.tenancy.nouns import Tenant
from cotenant.workloads.protocol import Properties


class PropertyCache:
    """Caches the properties of a run's workloads, in the number format they have on its device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._properties: dict[str, Properties] = {}

    def properties(self, tenant: Tenant) -> Properties:
        """From the cache, or by a dry run of the workload."""
        key = tenant.workload.model_dump_json()
        if key not in self._properties:
            spec = self._device.spec(tenant.workload)
            self._properties[key] = workloads.find(spec.name).properties(spec)
        return self._properties[key]

    def memory_bytes(self, tenant: Tenant) -> int:
        """Estimated memory of the tenant's model; 0 where that is unknown."""
        return self.properties(tenant).peak_memory_bytes or 0
