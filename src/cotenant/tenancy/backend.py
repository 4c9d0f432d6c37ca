"""A backend's entry in a tenants file."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, model_validator

from cotenant.clients.address import Address, read_address
from cotenant.errors import WorkloadError
from cotenant.tenancy.values import Count, Frozen, Switch, Text, read_duration

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
Seconds = Annotated[float, PlainValidator(read_duration)]


class BackendTimeouts(Frozen):
    """How long to wait for a backend, step by step; a request that exceeds a limit is answered with 504."""

    connect: Seconds = Field(default=5.0, description="For a connection.")
    first: Seconds = Field(
        default=120.0, description="From the request to the first byte; an answer that isn't streamed comes at its end."
    )
    between: Seconds = Field(default=30.0, description="Between pieces of an answer.")
    whole: Seconds = Field(default=600.0, description="For a request from start to end.")


class BackendEntry(Frozen):
    """A server that executes a tenant's requests."""

    openai: AddressText | None = Field(default=None, description="Address of a server with OpenAI's interface.")
    v2: AddressText | None = Field(default=None, description="Address of a server with the Open Inference Protocol.")
    model: Text | None = Field(default=None, description="Its name there; default: the only model.")
    parallel: Count = Field(default=8, description="Maximum concurrent requests, over all tenants of that address.")
    cost: Seconds | None = Field(
        default=None, description="Time of a typical request there; default: measured at the start."
    )
    key_env: Annotated[str, PlainValidator(_variable)] | None = Field(
        default=None, description="Environment variable with the backend's key."
    )
    timeouts: BackendTimeouts = Field(default=BackendTimeouts(), description="How long to wait, step by step.")
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
