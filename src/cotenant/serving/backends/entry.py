"""What a file says of a server behind ours."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, model_validator

from cotenant.errors import WorkloadError
from cotenant.study.values import Count, Switch, Text, read_duration
from cotenant.tenancy.nouns import Frozen
from cotenant.workloads.servers.address import Address, read_address

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
Protocol = Literal["openai", "v2"]


def _address(value: Any) -> str:
    try:
        read_address(str(value))
    except WorkloadError as error:
        raise ValueError(error.message) from None
    return str(value).rstrip("/").removesuffix("/v1").removesuffix("/v2")


def _variable(value: Any) -> str:
    if not isinstance(value, str) or not _VARIABLE.match(value):
        raise ValueError("expected the name of an environment variable that holds the key")
    return value


AddressText = Annotated[str, PlainValidator(_address)]


class BackendEntry(Frozen):
    """A server that executes a tenant's requests; how it is reached is said here and nowhere else."""

    openai: AddressText | None = Field(default=None, description="Address of a server with OpenAI's interface.")
    v2: AddressText | None = Field(default=None, description="Address of a server with the Open Inference Protocol.")
    model: Text | None = Field(default=None, description="Its name there; default: the only one that there is.")
    parallel: Count = Field(default=8, description="Requests that it gets at once, of all tenants of that address.")
    cost: Annotated[float, PlainValidator(read_duration)] | None = Field(
        default=None, description="What a typical request takes there; default: measured with a few at the start."
    )
    key_env: Annotated[str, PlainValidator(_variable)] | None = Field(
        default=None, description="Environment variable with the key that the backend wants."
    )
    sleep: Switch = Field(
        default=False,
        description="vLLM's sleep mode: of all backends with this, one at a time is awake.",
    )

    @model_validator(mode="after")
    def _one_address(self) -> "BackendEntry":
        if (self.openai is None) == (self.v2 is None):
            raise ValueError("a backend has one address, under openai or under v2")
        if self.sleep and self.openai is None:
            raise ValueError("sleep goes with openai: it is vLLM's")
        return self

    @property
    def protocol(self) -> Protocol:
        """Which interface it has."""
        return "openai" if self.openai is not None else "v2"

    @property
    def address(self) -> Address:
        """Where it is."""
        return read_address(self.openai or self.v2 or "")
