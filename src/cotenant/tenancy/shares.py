"""Shares of a GPU in a study: percentages of its SMs, real or simulated."""

from cotenant.errors import SharingUnavailable


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
