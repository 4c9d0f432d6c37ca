"""A backend's entry in a tenants file."""

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
    """A server that executes a tenant's requests."""

    openai: AddressText | None = Field(default=None, description="Address of a server with OpenAI's interface.")
    v2: AddressText | None = Field(default=None, description="Address of a server with the Open Inference Protocol.")
    model: Text | None = Field(default=None, description="Its name there; default: the only model.")
    parallel: Count = Field(default=8, description="Maximum concurrent requests, over all tenants of that address.")
    cost: Annotated[float, PlainValidator(read_duration)] | None = Field(
        default=None, description="Time of a typical request there; default: measured at the start."
    )
    key_env: Annotated[str, PlainValidator(_variable)] | None = Field(
        default=None, description="Environment variable with the backend's key."
    )
    sleep: Switch = Field(
        default=False,
        description="vLLM's sleep mode: of all backends with this, one at a time is awake.",
    )

    @model_validator(mode="after")
    def _one_address(self) -> "BackendEntry":
        if (self.openai is None) == (self.v2 is None):
            raise ValueError("a backend needs exactly one address, under openai or v2")
        if self.sleep and self.openai is None:
            raise ValueError("sleep requires openai: it is a feature of vLLM")
        return self

    @property
    def protocol(self) -> Protocol:
        """Its protocol."""
        return "openai" if self.openai is not None else "v2"

    @property
    def address(self) -> Address:
        """Its address."""
        return read_address(self.openai or self.v2 or "")
