"""What can be read of a CPU while tenants run; each sensor says what its readings are worth."""

from cotenant.devices.cpu.sensors.probes import open_probes

__all__ = ["open_probes"]
