"""Is this GPU ready to be measured? One small function per question, each with the step that mends it."""

from cotenant.devices.nvidia.checkup.findings import absent, checkup
from cotenant.devices.nvidia.checkup.mending import fix, restore

__all__ = ["absent", "checkup", "fix", "restore"]
