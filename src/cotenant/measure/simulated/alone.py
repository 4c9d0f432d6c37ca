"""Time of a request of each tenant alone on a simulated GPU, before any trial."""

from collections.abc import Mapping

from cotenant.devices.simulated.device import SimulatedGpu
from cotenant.errors import CotenantError
from cotenant.prediction.sharing.layout import whole_of
from cotenant.workloads.protocol import WorkloadSpec


def request_times(device: SimulatedGpu, tenants: Mapping[str, WorkloadSpec]) -> Mapping[str, float]:
    """Seconds of a request by tenant; those that can't be simulated or don't fit are omitted.

    In closed form: a forecast must not wait for the event engine to be compiled.
    """
    found: dict[str, float] = {}
    for name, spec in tenants.items():
        try:
            if device.memory_bytes(spec) <= device.gpu.memory_bytes:
                trace = device.trace(device.request(spec), whole_of(device.gpu), device.controls({}))
                found[name] = trace.alone_ns() / 1e9
        except CotenantError:
            continue  # the run will report why
    return found
