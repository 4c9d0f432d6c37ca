"""Jobs: work with an end, and the classes of work by which the GPUs of a database suit them more or less."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from cotenant.tenancy.values import Count, Frozen, Seconds, Switch, one_of
from cotenant.tenancy.words import expected, is_number


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of work."""

    name: str
    core_share: float
    """Fraction of its time that scales with the clock: 1 for a matrix product, near 0 for a copy."""
    activity: float
    """Power above idle relative to work at the power limit, at the same clock."""
    across: float = 1.0
    """Time across several nodes relative to a single node."""


CLASSES = (
    JobClass("gemm", core_share=0.97, activity=1.0, across=1.0),
    JobClass("resnet", core_share=0.85, activity=0.93, across=1.16),
    JobClass("bert", core_share=0.75, activity=0.85, across=1.0),
    JobClass("pagerank", core_share=0.1, activity=0.35, across=1.1),
)
"""Assumed, not measured: core shares within the range of DVFS measurements on two GPUs (0.05 for a vector sum to 1.02),
and the cost of leaving a node as published by PAL for its classes."""
_BY_NAME = {kind.name: kind for kind in CLASSES}


def _from(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if not is_number(value) or not low <= value <= high:
            raise expected(f"a number from {low:g} to {high:g}", value)
        return float(value)

    return read


CoreShare = Annotated[
    float, PlainValidator(_from(0, 1)), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})
]
Activity = Annotated[
    float, PlainValidator(_from(0.01, 1.5)), WithJsonSchema({"type": "number", "minimum": 0.01, "maximum": 1.5})
]
Across = Annotated[
    float, PlainValidator(_from(1, 100)), WithJsonSchema({"type": "number", "minimum": 1, "maximum": 100})
]


def is_described(job: Any) -> bool:
    """Whether an entry's job says what it is like, so that it needs no workload."""
    return isinstance(job, Mapping) and (job.get("like") is not None or job.get("core_share") is not None)


class JobEntry(Frozen):
    """A job: work with an end."""

    gpus: Count = Field(default=1, description="Number of devices it spans.")
    time: Seconds = Field(description="Duration alone on its devices.", examples=["2h"])
    within: Seconds | None = Field(default=None, description="Deadline.", examples=["3h"])
    like: Annotated[
        str | None, PlainValidator(one_of(*_BY_NAME)), WithJsonSchema({"type": "string", "enum": list(_BY_NAME)})
    ] = Field(
        default=None, description="Class of work, for the GPUs of the database: how far slow and fast ones matter."
    )
    core_share: CoreShare | None = Field(
        default=None, description="Instead of `like`: the share of its time that stretches when the clock falls."
    )
    activity: Activity = Field(
        default=1.0, description="Power above idle, relative to work at the power limit; with `core_share`."
    )
    across: Across = Field(default=1.0, description="Time over several nodes relative to one; with `core_share`.")
    beside: Switch = Field(default=False, description="May share its GPU of the database with another job.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        own = {"activity", "across"} & self.model_fields_set
        if self.like is not None and self.core_share is not None:
            raise ValueError("expected one of like and core_share, not both")
        if own and self.core_share is None:
            raise ValueError(f"{' and '.join(sorted(own))} go with core_share")
        return self

    def kind(self, name: str) -> JobClass | None:
        """Its class of work, under its own name unless it is a usual one; None if it doesn't say."""
        if self.like is not None:
            return _BY_NAME[self.like]
        return None if self.core_share is None else JobClass(name, self.core_share, self.activity, self.across)
