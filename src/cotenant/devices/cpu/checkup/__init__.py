"""Is this CPU ready to be measured? One small function per question, each with the step that mends it."""

from cotenant.devices.cpu.checkup.findings import checkup

__all__ = ["checkup"]
