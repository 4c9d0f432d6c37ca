"""Costs of a request stated by the user, where they can't be determined."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ByteSize, Field

from cotenant.workloads.options import Options, read_options
from cotenant.workloads.protocol import Properties, WorkloadSpec

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


@dataclass(frozen=True, slots=True)
class Opaque:
    """A workload whose costs and number format are known only as far as the user states them."""

    options: ClassVar[type[StatedOptions]] = StatedOptions
    name: str
    family: str = FAMILY
    dtype: None = None

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states."""
        return read_options(spec, self.options).stated.properties()
