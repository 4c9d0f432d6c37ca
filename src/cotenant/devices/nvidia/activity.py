"""SM, tensor core and DRAM activity where the driver's library has none (before Hopper): from DCGM, if it is here."""

import logging
from dataclasses import dataclass

from cotenant.devices.nvidia import dcgm, gpm
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.protocol import Probe

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DcgmActivity:
    """DCGM's probe, or why there is none."""

    probe: Probe | None
    why_not: str | None
    fix: str | None = None


def ask_dcgm(gpu: GpuFacts) -> DcgmActivity:
    """Start DCGM's reader, unless the driver itself tells. It is a child process: ask once and keep the answer."""
    if gpm.unavailable(gpu) is None:
        return DcgmActivity(None, "the driver itself tells (GPM)")
    found = dcgm.probe(gpu.index, gpu.uuid)
    if isinstance(found, dcgm.Unavailable):
        log.info("no activity from DCGM for %s: %s", gpu.label, found.reason)
        return DcgmActivity(None, found.reason, found.fix)
    return DcgmActivity(found, None)
