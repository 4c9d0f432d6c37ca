"""Parse the label of an open load."""

import re

_OPEN = ("poisson", "gamma", "trace")
_RATE = re.compile(r"\d+(?:\.\d+)?%?")


def arrivals_and_rate(label: str) -> tuple[str, float] | None:
    """`("gamma with cv 3", 0.15)` from `gamma(15%, 3)`; None for closed loads, and where each tenant has its own.

    Labels are parsed so that records can be read without the study that made them.
    """
    kind, _, rest = label.removesuffix(")").partition("(")
    parts = [part.strip() for part in rest.split(",")]
    rate = parts[-1] if kind == "trace" else parts[0]
    if kind not in _OPEN or not _RATE.fullmatch(rate):
        return None
    value = float(rate.removesuffix("%")) / (100 if rate.endswith("%") else 1)
    return (f"gamma with cv {parts[1]}" if kind == "gamma" and len(parts) > 1 else kind), value
