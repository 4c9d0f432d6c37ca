"""SM, tensor core and DRAM activity from DCGM, where the driver doesn't report it (before Hopper)."""

import logging
from dataclasses import dataclass

from cotenant.devices.nvidia import dcgm, gpm
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.protocol import Probe

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DcgmActivity:
    """DCGM's probe, or why it is missing."""

    probe: Probe | None
    why_not: str | None
    fix: str | None = None


def ask_dcgm(gpu: GpuFacts) -> DcgmActivity:
    """Start DCGM's reader, unless the driver reports activity itself. It is a child process: start once and keep it."""
    if gpm.unavailable(gpu) is None:
        return DcgmActivity(None, "the driver reports it (GPM)")
    found = dcgm.probe(gpu.index, gpu.uuid)
    if isinstance(found, dcgm.Unavailable):
        log.info("no activity from DCGM for %s: %s", gpu.label, found.reason)
        return DcgmActivity(None, found.reason, found.fix)
    return DcgmActivity(found, None)
