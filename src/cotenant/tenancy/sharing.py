"""How tenants share a device: the ways, and their syntax in a file."""

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from cotenant.errors import SharingUnavailable
from cotenant.tenancy.values import Frozen
from cotenant.tenancy.ways import ALONE, EQUAL, MODES, PERCENTAGES, SPLITTING_MODES
from cotenant.tenancy.words import did_you_mean, expected, is_number


class Sharing(Frozen):
    """How tenants share the device; ``shares`` in the tenants' order where the mode splits the device."""

    mode: str
    shares: tuple[float | str, ...] = ()

    def __str__(self) -> str:
        """The form used in tables and records: `mps[60, 40]`."""
        return (
            f"{self.mode}[{', '.join(f'{s:g}' if isinstance(s, float) else s for s in self.shares)}]"
            if (self.shares)
            else self.mode
        )

    def among(self, tenants: int) -> "Sharing":
        """With `equal` replaced by the share of each of so many tenants."""
        if self.shares != (EQUAL,):
            return self
        return self.model_copy(update={"shares": (float(100 // tenants),) * tenants})


def _share(value: Any) -> float | str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    if not is_number(value) or value <= 0:
        raise expected("a share of the device such as 40 or 3g.20gb", value)
    return float(value)


def _sharing(value: Any) -> Sharing:
    if isinstance(value, Sharing):
        return value
    mode, shares = value, None
    if isinstance(value, dict) and len(value) == 1:
        ((mode, shares),) = value.items()
    if not isinstance(mode, str):
        raise expected("a way to share such as processes or {mps: [60, 40]}", value)
    if mode == ALONE:
        raise ValueError("alone is the sharing of solo trials, which are always measured; it can't be listed")
    if mode not in MODES:
        raise expected(f"one of {', '.join(MODES)}", mode, did_you_mean(mode, MODES))
    return Sharing(mode=mode, shares=() if shares is None else _shares(mode, shares))


def _shares(mode: str, shares: Any) -> tuple[float | str, ...]:
    if mode not in SPLITTING_MODES:
        raise ValueError(f"{mode} doesn't split the device, so it takes no shares")
    if shares == EQUAL and mode in PERCENTAGES:
        return (EQUAL,)
    if not isinstance(shares, list) or not shares:
        raise expected(f"a list of shares such as {{{mode}: [60, 40]}}", shares)
    read = tuple(_share(share) for share in shares)
    if mode in {"mps", "mps-static"} and any(isinstance(share, str) or share > 100 for share in read):
        raise ValueError(f"shares of {mode} are percentages of the device, above 0 and at most 100")
    return read


def sharing_written(sharing: Sharing) -> str | dict[str, str | list[float | str]]:
    """A way to share in the syntax of a file: `{mps: [60, 40]}`, `{mps: equal}`, or `mps` without shares."""
    if sharing.shares == (EQUAL,):
        return {sharing.mode: EQUAL}
    return {sharing.mode: list(sharing.shares)} if sharing.shares else sharing.mode


_SHARE_SCHEMA = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "minLength": 1}]}


def _shares_schema(mode: str) -> dict[str, Any]:
    listed = {"type": "array", "items": _SHARE_SCHEMA, "minItems": 1}
    return {"anyOf": [{"const": EQUAL}, listed]} if mode in PERCENTAGES else listed


_SHARING_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": list(MODES)},
        {
            "type": "object",
            "properties": {
                mode: {"description": f"Shares under {mode}.", **_shares_schema(mode)} for mode in SPLITTING_MODES
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    ],
    "examples": ["processes", {"mps": [60, 40]}],
}

Share = Annotated[float | str, PlainValidator(_share), WithJsonSchema(_SHARE_SCHEMA)]
SharingText = Annotated[
    Sharing, PlainValidator(_sharing), PlainSerializer(sharing_written), WithJsonSchema(_SHARING_SCHEMA)
]


def percent_of_sms(share: float | str, mode: str) -> float:
    """A share as a percentage above 0. Raises SharingUnavailable."""
    try:
        value = float(share)
    except ValueError:
        value = float("nan")
    if not 0 < value <= 100:
        raise SharingUnavailable(
            f"{share!r} is not a share for `{mode}`", hint=f"shares are percentages of the SMs, e.g. `{mode}: [60, 40]`"
        )
    return value
