"""`exclusive`: the driver admits a single process; all tenants are its threads, as in `streams`."""

from collections.abc import Sequence
from typing import Self

from cotenant.devices.nvidia.library import DriverProblem
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.nvidia.sharing import compute_mode, streams
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace
from cotenant.devices.nvidia.sharing.leftovers import Undoing, leave
from cotenant.devices.protocol import SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant

MEANING = "as `streams`, and the driver refuses every other process (compute mode exclusive process)"


class ExclusiveFixture(Undoing):
    """The GPU in compute mode `exclusive process`."""

    alone = True

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu = gpu
        self.name = f"compute mode `exclusive process` of {gpu.label}"

    def __enter__(self) -> Self:
        """Set the mode and read it back."""
        before = compute_mode.read(self._gpu)
        self._left = leave("compute_mode", {"gpu": self._gpu.uuid, "mode": before})
        try:
            compute_mode.write(self._gpu, compute_mode.EXCLUSIVE_PROCESS)
        except DriverProblem as problem:
            self.__exit__()
            raise SharingUnavailable(f"{self.name} can't be set: {problem.message}", hint="use `streams`") from None
        return self

    def stands(self) -> bool:
        """True while the GPU is in that mode."""
        return compute_mode.read(self._gpu) == compute_mode.EXCLUSIVE_PROCESS


def missing(place: GpuPlace) -> str | None:
    """The missing requirement; None if available."""
    return None if compute_mode.may_write(place.gpu) else "root: only an administrator may change the compute mode"


def available(place: GpuPlace) -> SharingMode:
    """Never for `all`: it locks everyone else out of the GPU, so a study has to name it."""
    lacking = missing(place) or "to be named in a study, since it locks everyone else out of the GPU"
    return SharingMode("exclusive", MEANING, available=False, missing=lacking, instead="streams")


def arrange(place: GpuPlace, fixture: ExclusiveFixture, tenants: Sequence[Tenant]) -> GpuArrangement:
    """All tenants in the same process."""
    return streams.arrange(place, "exclusive", tenants, fixture)
