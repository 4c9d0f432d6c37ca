"""Defaults of single devices: for what a group does, and for what not every device can do."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from cotenant import workloads
from cotenant.devices.protocol import DeviceKind, HostPlan, Roofline, SeatReport
from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import FRAGMENTATION, Room
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import Dtype, WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice


PROCESS_BYTES = 400 << 20
"""Estimated memory of a tenant process besides its model: Python and torch."""
RUNTIME_BYTES = 500 << 20
"""Estimated memory of a GPU's runtime before a model is loaded; a verified batch doesn't depend on it."""


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
        """The device itself."""
        return (self,)

    def only(self, names: Sequence[str | None]) -> Self:
        """The device itself: it can't be divided."""
        del names
        return self

    def identities(self) -> Mapping[str, str]:
        """Empty: it has no members."""
        return {}

    def lost(self) -> tuple[str, ...]:
        """Empty: it has no members."""
        return ()

    def simulation(self, member: str | None = None) -> "SimulatedGpuDevice":
        """Raise: a real device."""
        raise DeviceError(f"{member or self.name} is a real device: nothing on it is simulated")

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """Empty: it has no shares to try."""
        del mode, tenants
        return ()

    @property
    def default_dtype(self) -> Dtype:
        """A number format it handles well."""
        raise NotImplementedError

    @property
    def stand_in(self) -> bool:
        """Tenants compute on the device itself."""
        return False

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else this device's."""
        if spec.dtype is not None:
            return spec
        return with_dtype(spec, "float32" if self.stand_in else self.default_dtype)

    @property
    def nsys_index(self) -> int | None:
        """Nsight Systems can't profile it."""
        return None

    @property
    def reports_priorities(self) -> bool:
        """False: they can't be read back."""
        return False

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings unchanged: none are relative."""
        return settings

    def free_memory_bytes(self) -> int:
        """Memory available to tenants now."""
        raise NotImplementedError

    def least_free_bytes(self) -> int:
        """All free memory."""
        return self.free_memory_bytes()

    @property
    def tenant_bytes(self) -> int:
        """A process with Python and torch."""
        return PROCESS_BYTES

    def room(self, memory_bytes: int | None = None) -> Room:
        """Limits of a tenant: GPU allocators fragment, the runtime takes its part, kernels use 32-bit indices."""
        return Room(memory_bytes or self.free_memory_bytes(), FRAGMENTATION, RUNTIME_BYTES, indexed_32_bit=True)

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """Empty: unknown."""
        del own
        return ()

    def remembered_roofline(self) -> Roofline | None:
        """None: nothing is cached."""
        return None


def with_dtype(spec: WorkloadSpec, usual: Dtype) -> WorkloadSpec:
    """The spec with a number format: its own, else its workload's, else the default."""
    if spec.dtype is not None:
        return spec
    dtype = getattr(workloads.find(spec.name), "dtype", usual)  # None: the workload has no number format
    return spec if dtype is None else spec.model_copy(update={"dtype": dtype})


# --- verifies that tenants sit in the processes their sharing mode needs


def wrong_processes(
    mode: str, tenants: Sequence[str], hosts: Sequence[HostPlan], reports: Mapping[str, SeatReport]
) -> Iterator[str]:
    """A sentence for each planned process whose tenants are spread over several, and for each shared by two plans."""
    first_in: dict[int, tuple[int, str]] = {}
    for number, host in enumerate(hosts):
        names = [name for seat in host.seats if (name := tenants[seat.tenant]) in reports]
        pids = {reports[name].pid for name in names}
        if len(pids) > 1:
            yield f"{' and '.join(names)} sit in {len(pids)} processes; `{mode}` needs them in one"
        for name in names:
            pid = reports[name].pid
            where, other = first_in.setdefault(pid, (number, name))
            if where != number:
                yield f"{other} and {name} share process {pid}; `{mode}` needs one each"
