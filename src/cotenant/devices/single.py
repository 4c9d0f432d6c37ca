"""What single devices have in common: defaults for what a group does, and for what not every device can do."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from cotenant import workloads
from cotenant.devices.protocol import DeviceKind, Roofline
from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import Room
from cotenant.prediction.memory import FRAGMENTATION
from cotenant.tenancy.nouns import Sharing, Tenant
from cotenant.workloads.protocol import Dtype, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu

PROCESS_BYTES = 400 << 20
"""Estimate of what a tenant process holds besides its model: Python and torch."""
RUNTIME_BYTES = 500 << 20
"""Estimate of what a GPU's runtime takes before it holds a model; a verified batch doesn't depend on it."""


class SingleDevice:
    """A device that is not a group. Subclasses override what they know better."""

    name: str
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> DeviceKind:
        """A GPU."""
        return "gpu"

    @property
    def members(self) -> tuple[Self, ...]:
        """Itself."""
        return (self,)

    def only(self, names: Sequence[str | None]) -> Self:
        """The device itself: it can't be divided."""
        del names
        return self

    def identities(self) -> Mapping[str, str]:
        """None: it has no members."""
        return {}

    def lost(self) -> tuple[str, ...]:
        """None: it has no members."""
        return ()

    def simulation(self, member: str | None = None) -> "SimulatedGpu":
        """Nothing is simulated here."""
        raise DeviceError(f"{member or self.name} is a real device: nothing on it is simulated")

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """None: it has no parts to give out."""
        del mode, tenants
        return ()

    @property
    def default_dtype(self) -> Dtype:
        """The number format that it does well."""
        raise NotImplementedError

    @property
    def stand_in(self) -> bool:
        """Tenants compute on the device itself."""
        return False

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else this device's."""
        if spec.dtype is not None:
            return spec
        here = "float32" if self.stand_in else self.default_dtype
        dtype = getattr(workloads.find(spec.name), "dtype", here)  # None: the workload has no number format
        return spec if dtype is None else spec.model_copy(update={"dtype": dtype})

    @property
    def nsys_index(self) -> int | None:
        """Nsight Systems can't profile it."""
        return None

    @property
    def reports_priorities(self) -> bool:
        """They can't be read back."""
        return False

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Nothing is relative to it."""
        return settings

    def free_memory_bytes(self) -> int:
        """Memory that tenants can have now."""
        raise NotImplementedError

    def least_free_bytes(self) -> int:
        """All that is free."""
        return self.free_memory_bytes()

    @property
    def tenant_bytes(self) -> int:
        """A process with Python and torch."""
        return PROCESS_BYTES

    def room(self, memory_bytes: int | None = None) -> Room:
        """A GPU's allocator fragments, its runtime takes its part, and kernels index with 32 bits."""
        return Room(memory_bytes or self.free_memory_bytes(), FRAGMENTATION, RUNTIME_BYTES, indexed_32_bit=True)

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """It can't tell."""
        del own
        return ()

    def remembered_roofline(self) -> Roofline | None:
        """Nothing is remembered."""
        return None
