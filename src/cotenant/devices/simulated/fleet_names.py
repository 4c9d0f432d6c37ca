"""Names of fleets and their members: `v100-sxm2-16gb*392` is 392 dies, `v100-sxm2-16gb#17` is number 17."""

import re
from dataclasses import dataclass

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DeviceError
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import TYPICAL, Die, draw
from cotenant.tenancy.device_name import DeviceName

MOST = 100_000
_NAME = re.compile(r"(?P<gpu>[^*#]+)(?:(?P<sign>[*#])(?P<number>\d+))?")


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed name."""

    gpu: GpuSpec
    count: int | None = None
    """Size of a fleet; None for a single GPU."""
    index: int | None = None
    """Number within a fleet; None for a typical die."""

    def die(self, *, seed: int = 0) -> Die:
        """The die of a single GPU."""
        return TYPICAL if self.index is None else draw(self.gpu, self.index, seed=seed)

    def members(self) -> tuple[str, ...]:
        """Names of a fleet's members; for a single GPU, its own."""
        if self.count is None:
            return (self.gpu.name if self.index is None else f"{self.gpu.name}#{self.index}",)
        return tuple(f"{self.gpu.name}#{index}" for index in range(self.count))


def parse(name: str) -> Named:
    """Parse the name of a GPU, fleet or member; a leading `sim:` is ignored.

    Raises:
        DeviceError: No such GPU, or it is not followed by a number of GPUs.
    """
    wanted = DeviceName(name.strip()).model
    match = _NAME.fullmatch(wanted)
    if match is None:
        raise DeviceError(
            f"{wanted!r} is not a simulated GPU",
            hint="a fleet is written v100-sxm2-16gb*392, one of its members v100-sxm2-16gb#17",
        )
    gpu = find_gpu(match["gpu"])
    if match["sign"] is None:
        return Named(gpu)
    number = int(match["number"])
    if match["sign"] == "#":
        return Named(gpu, index=number)
    if not 1 <= number <= MOST:
        raise DeviceError(f"a fleet of {number} GPUs can't be simulated", hint=f"choose 1 to {MOST}")
    return Named(gpu, count=number)
