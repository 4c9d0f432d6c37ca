"""How numbers look: three significant digits, the interval beside the estimate, time in words."""

import math
from typing import Protocol

NOTHING = "–"  # noqa: RUF001 - a dash is what tables show where there is no number
"""Stands where there is no number."""


class Interval(Protocol):
    """An estimate with its interval; None where the data allows none."""

    @property
    def est(self) -> float: ...  # noqa: D102
    @property
    def lo(self) -> float | None: ...  # noqa: D102
    @property
    def hi(self) -> float | None: ...  # noqa: D102


def figure(value: float, digits: int = 3) -> str:
    """A number in so many significant digits, never in powers of ten within what people meet: `1230`, `0.0123`."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else NOTHING
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))  # after rounding: 9.999 is 10.0
    if not -5 < magnitude < 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def ratio(value: float) -> str:
    """A ratio such as a slowdown: in hundredths as far as anybody cares for them."""
    return f"{value:.2f}" if abs(value) < 9.995 else figure(value)


def ratio_with_interval(estimate: Interval) -> str:
    """`1.62 [1.58, 1.67]`, or the estimate alone where the data allows no interval."""
    if estimate.lo is None or estimate.hi is None:
        return f"{ratio(estimate.est)} [?]"
    return f"{ratio(estimate.est)} [{ratio(estimate.lo)}, {ratio(estimate.hi)}]"


def percent(share: float) -> str:
    """`3 %`, `0.4 %`, `120 %`."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 10 else f"{float(f'{value:.2g}'):g} %"


def duration(seconds: float) -> str:
    """`8 s`, `1 min 35 s`, `2 h 10 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(count: float) -> str:
    """Bytes in binary units: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{figure(count)} {unit}"
        count /= 1024
    return f"{figure(count)} TiB"


def count(value: float) -> str:
    """A large number with a prefix: `109 M`, `7.25 G`."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{figure(value / scale)} {unit}"
    return f"{value:.3g}"
