"""How much room a device has for one tenant."""

from cotenant.devices.protocol import Device
from cotenant.prediction.batch_limit import Room
from cotenant.prediction.memory import FRAGMENTATION
from cotenant.tenancy.nouns import ALONE, Sharing, Tenant
from cotenant.workloads.protocol import WorkloadSpec

RUNTIME_BYTES = 500 << 20
"""Estimate of what a GPU's runtime takes before it holds a model; a verified batch doesn't depend on it."""


def room_of(device: Device, memory_bytes: int | None = None) -> Room:
    """What a tenant alone on a device has, or ``memory_bytes`` of it."""
    available = memory_bytes or device.free_memory_bytes()
    if device.simulated:
        from cotenant.devices.simulated.device import SimulatedGpu

        assert isinstance(device, SimulatedGpu)
        return Room(available, FRAGMENTATION, device.context_bytes, indexed_32_bit=True)
    if device.name.startswith("cpu"):
        # The heap gives back what is free, and tensors are indexed with 64 bits.
        return Room(available, holds_inputs=True)
    return Room(available, FRAGMENTATION, RUNTIME_BYTES, indexed_32_bit=True)


def on_device(spec: WorkloadSpec, device: Device) -> WorkloadSpec:
    """The spec with the number format that the device does well, unless it names one."""
    if spec.dtype is not None:
        return spec
    if device.simulated:
        from cotenant.devices.simulated.device import SimulatedGpu

        assert isinstance(device, SimulatedGpu)
        return device.spec(spec)
    seat = device.seat(seat_options(spec, device))
    return spec.model_copy(update={"dtype": seat.default_dtype})


def seat_options(spec: WorkloadSpec, device: Device) -> dict[str, object]:
    """What a tenant that is alone on the device is told about its seat."""
    from cotenant.tenancy.load import Load

    tenant = Tenant(name=spec.name, of=spec.name, workload=spec, load=Load(kind="closed"))
    [host] = device.arrange(Sharing(mode=ALONE), [tenant]).hosts
    return dict(host.seats[0].options)
