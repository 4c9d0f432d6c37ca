"""Conditions before a trial begins: how warm its devices may be."""

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from cotenant.tenancy.values import Frozen, Seconds
from cotenant.tenancy.words import expected

STEADY = "steady"
_ABOVE_IDLE = re.compile(r"^idle\s*\+\s*(\d+(?:\.\d+)?)\s*°?C$")


def _goal(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    match = _ABOVE_IDLE.match(text)
    if match is None and text != STEADY:
        raise expected("idle+1C (or another number of degrees) or steady", value)
    return text if match is None else f"idle+{float(match.group(1)):g}C"


class Before(Frozen):
    """Waits before each trial until its devices are cool enough."""

    cool_to: Annotated[
        str,
        PlainValidator(_goal),
        WithJsonSchema({"type": "string", "pattern": r"^\s*(steady|idle\s*\+\s*\d+(\.\d+)?\s*°?C)\s*$"}),
    ] = Field(
        description="idle+1C: at most one degree above idle; steady: as warm as the work itself keeps it.",
        examples=["idle+1C", "steady"],
    )
    timeout_s: Seconds = Field(
        default=300.0, alias="timeout", description="Begin after this time at the latest, with a note."
    )

    @property
    def above_idle_c(self) -> float | None:
        """Degrees above idle; None: steady."""
        match = _ABOVE_IDLE.match(self.cool_to)
        return None if match is None else float(match.group(1))
