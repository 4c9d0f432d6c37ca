"""What the user says that a request costs, where nobody else can know it."""

from pydantic import ByteSize, Field

from cotenant.workloads.options import Options
from cotenant.workloads.protocol import Properties

FAMILY = "yours"
UNKNOWN_DTYPE = "unknown"


class Stated(Options):
    """`params: {stated: {...}}`: recorded as the user's word; what is left out stays unknown."""

    parameters: int | None = Field(default=None, ge=0)
    weights: ByteSize | None = None
    flops: float | None = Field(default=None, ge=0)
    bytes_moved: float | None = Field(default=None, ge=0)
    memory: ByteSize | None = None

    def properties(self) -> Properties:
        """The stated costs of one request."""
        return Properties(
            params=self.parameters,
            weight_bytes=None if self.weights is None else int(self.weights),
            flops=self.flops,
            bytes_moved=self.bytes_moved,
            peak_memory_bytes=None if self.memory is None else int(self.memory),
        )


class StatedOptions(Options):
    """The part of `params` that every workload of the user's knows."""

    stated: Stated = Stated()
