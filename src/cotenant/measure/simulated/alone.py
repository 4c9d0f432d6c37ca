"""Time of a request of each tenant alone on a simulated GPU, before any trial."""

from collections.abc import Mapping

from cotenant.devices.simulated.device import SimulatedGpuDevice
from cotenant.errors import CotenantError
from cotenant.workloads.protocol import WorkloadSpec


def request_times(
    device: SimulatedGpuDevice, tenants: Mapping[str, WorkloadSpec], in_flight: Mapping[str, int]
) -> Mapping[str, float]:
    """Seconds of a request by tenant; those that can't be simulated or don't fit are omitted.

    In closed form: a forecast must not wait for the event engine to be compiled.

    Args:
        device: The simulated GPU.
        tenants: Workloads by tenant.
        in_flight: Requests of closed loads by tenant, where there is more than one.
    """
    found: dict[str, float] = {}
    for name, spec in tenants.items():
        try:
            if device.memory_bytes(spec) <= device.gpu.memory_bytes:
                found[name] = device.request_s(spec, in_flight=in_flight.get(name, 1))
        except CotenantError:
            continue  # the run will report why
    return found
