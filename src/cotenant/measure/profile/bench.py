"""The bench that a profile pass measures on: the same as a run's."""

from cotenant.devices.protocol import Device
from cotenant.measure.bench import Bench
from cotenant.measure.live import LiveBench
from cotenant.measure.properties import PropertyCache
from cotenant.measure.session import PROCESS_BYTES, WARM_S


def bench_for(device: Device, run: str) -> Bench:
    """Tenants on a real device."""
    known = PropertyCache()
    return LiveBench(
        device,
        run=run,
        properties=lambda tenant: known.properties(tenant.workload),
        memory_of=lambda tenant: (known.properties(tenant.workload).peak_memory_bytes or 0) + PROCESS_BYTES,
        warm_s=WARM_S,
    )
