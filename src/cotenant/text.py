"""Format numbers and amounts as text, and suggest near misses."""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

NOTHING = "–"  # noqa: RUF001 - a dash is what tables show where there is no number
"""Shown in place of a missing number."""


class Ranged(Protocol):
    """A number with `est`, `lo` and `hi`: an interval, or what is missing in its place."""

    @property
    def est(self) -> float | None: ...  # noqa: D102
    @property
    def lo(self) -> float | None: ...  # noqa: D102
    @property
    def hi(self) -> float | None: ...  # noqa: D102


def figure(value: float, digits: int = 3) -> str:
    """A number to this many significant digits, without an exponent in the usual range: `1230`, `0.0123`."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else NOTHING
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))  # after rounding: 9.999 is 10.0
    if not -5 < magnitude < 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def ratio(value: float) -> str:
    """A ratio such as a slowdown, in hundredths where that is meaningful."""
    return f"{value:.2f}" if abs(value) < 9.995 else figure(value)


def with_interval(number: Ranged, form: Callable[[float], str] = figure) -> str:
    """`1.62 [1.58, 1.67]`; a missing end is a question mark, a missing number a dash."""
    if number.est is None:
        return NOTHING
    if number.lo is None and number.hi is None:
        return f"{form(number.est)} [?]"
    ends = ", ".join("?" if end is None else form(end) for end in (number.lo, number.hi))
    return f"{form(number.est)} [{ends}]"


def times(number: Ranged) -> str:
    """`1.62x [1.58, 1.67]`: an estimate in front of what it multiplies."""
    est, _, ends = with_interval(number, ratio).partition(" ")
    return f"{est}x {ends}" if ends else est


def without_interval(number: Ranged, form: Callable[[float], str] = figure) -> str:
    """The estimate alone, or a dash."""
    return NOTHING if number.est is None else form(number.est)


def percent(share: float) -> str:
    """`3 %`, `0.4 %`, `120 %`."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 10 else f"{float(f'{value:.2g}'):g} %"


def in_time(share: float) -> str:
    """A share of requests, rounded down, so that 99.96 % doesn't read as 100 %: `92 %`, `98.7 %`, `99.96 %`."""
    value = share * 100
    decimals = 0 if value < 90 else 1 if value < 99 else 2
    return f"{math.floor(value * 10**decimals + 1e-6) / 10**decimals:g} %"


def duration(seconds: float) -> str:
    """`20 ms`, `8 s`, `1 min 35 s`, `2 h 10 min`."""
    if 0 < seconds < 0.9995:
        return f"{figure(seconds * 1e3)} ms"
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


def amount(number: int, noun: str, plural: str | None = None) -> str:
    """`1 trial`, `3 trials`, `2 copies`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def rate(per_second: float, noun: str = "request", digits: int = 3) -> str:
    """`1 request/s`, `0.5 requests/s`, `12,000 items/s`."""
    number = f"{float(f'{per_second:.{digits}g}'):,g}"
    return f"{number} {noun}{'' if number == '1' else 's'}/s"


def listed(names: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def together(names: Iterable[str]) -> str:
    """Tenants of a mix, copies grouped: `bert + gpt`, `distilgpt2 x10`."""
    counts = Counter(names)
    return " + ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())


def milliseconds(value: float) -> str:
    """A latency or its limit: `30 ms`, `1,670 ms`, `3 s`."""
    if value >= 1e3 and value % 1e3 == 0:
        return f"{value / 1e3:,.0f} s"
    return f"{value:,g} ms" if value == float(f"{value:.3g}") else f"{figure(value)} ms"


def nearest(word: str, options: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The options that resemble a word, best first, ignoring case."""
    from difflib import get_close_matches

    by_lower = {option.lower(): option for option in options}
    return [by_lower[one] for one in get_close_matches(word.lower(), by_lower, n=most, cutoff=cutoff)]


def did_you_mean(
    word: str, options: Iterable[str], *, most: int = 1, cutoff: float = 0.6, begin: str = "did"
) -> str | None:
    """`did you mean bert-base?`, or None if nothing resembles it; after a full stop it begins with `Did`."""
    near = nearest(word, options, most=most, cutoff=cutoff)
    return f"{begin} you mean {listed(near, 'or')}?" if near else None


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or are invisible."""


def literal(text: str, *, keep: str = "") -> str:
    r"""The text with every control character escaped (`\x1b`), except those in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _INVISIBLE else _written_out(char) for char in text
    )


def _written_out(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
