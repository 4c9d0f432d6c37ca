"""Costs of a request stated by the user, where they can't be determined."""

from pydantic import ByteSize, Field

from cotenant.workloads.options import Options
from cotenant.workloads.protocol import Properties

FAMILY = "yours"
UNKNOWN_DTYPE = "unknown"


class Stated(Options):
    """`params: {stated: {...}}`: recorded as stated; what is omitted stays unknown."""

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
    """The `params` common to all user workloads."""

    stated: Stated = Stated()
