"""Errors of simulated numbers against GPUs, by class, from validation; shipped with the product.

A class is the GPU's family, the tenant's software and phase, the way to share, and whether measured solo times were
given. `validated.json` is written by `make validate` from the residuals of studies on
simulated devices against public measurements (docs/validation.md); none of it is edited by hand.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Literal

from cotenant.prediction.gpu import Architecture
from cotenant.text import amount, percent
from cotenant.workloads.protocol import WorkloadSpec

Phase = Literal["prefill", "decode", "encoder", "vision", "training", "kernel", "other"]
Quantity = Literal["time", "slowdown", "tail", "tail_time"]
"""Mean time, alone or beside others; the same relative to alone; a quantile from p90 up relative to alone; the quantile
itself. Errors of a time alone and of a slowdown may cancel, so times beside others are judged directly too."""
FEWEST = 5
"""Minimum rows for a statement about a class that stands for itself, and groups for one about times beside others."""
UNKNOWN = 0.2, 5.0
"""Range where nothing at all was validated."""
_OUTSIDE = 0.05
"""Share of cases beyond each end of a range."""
_HALVINGS = 50
FILE = Path(__file__).with_name("validated.json")


@dataclass(frozen=True, slots=True, order=True)
class Class:
    """Class of a simulated number."""

    family: Architecture
    software: str
    phase: Phase
    sharing: str
    """`alone`, `processes`, `mps`, `mps with priority`, `mps with shares`, `mig`, ..."""
    calibrated: bool

    def __str__(self) -> str:
        given = ", measured solo times given" if self.calibrated else ""
        return f"{self.family}, {self.software}, {self.phase}, {self.sharing}{given}"


@dataclass(frozen=True, slots=True)
class ModelError:
    """Distribution of measured values relative to simulated ones."""

    low: float
    """90 % of the values are above this ratio..."""
    high: float
    """... and below this one."""
    mean_error: float
    """Mean of |simulated / measured - 1|."""
    n: int
    """Rows behind it; 0 if the class was not validated."""
    data_set: str
    law: str = ""
    """A simple law that is closer, fitted without the group it is judged by; empty if none."""
    groups: int = 0
    """Models, mixes or GPUs behind it."""
    like: int = 0
    """Groups of like classes whose rows the range also rests on, or classes that lend theirs if it has no rows."""

    @property
    def around_one(self) -> tuple[float, float]:
        """The range, extended to 1: a plan counts on no bias, since that of some models says little about the next."""
        return min(self.low, 1.0), max(self.high, 1.0)

    @property
    def enough(self) -> bool:
        """Whether its rows suffice, with those of like classes, for a statement."""
        return self.n >= FEWEST or (self.n > 0 and self.like > 0)

    @property
    def validated(self) -> bool:
        """Whether something comparable was validated."""
        return self.n > 0

    @property
    def sentence(self) -> str:
        """`6.9 % off on average over 46 rows (timeslicing_llms)`, or that nothing is known."""
        if not self.validated:
            return f"not validated; range of {amount(self.like, 'like class', 'like classes')}"
        nearer = f"; nearer: {self.law}" if self.law else ""
        lent = f"; range of {self.groups + self.like} models of like classes" if self.like else ""
        return f"{percent(self.mean_error)} off on average over {self.n} rows ({self.data_set}){nearer}{lent}"


MEASURED = ModelError(1.0, 1.0, 0.0, 1, "its measured time")
"""The error of a time that was measured and given."""


def phase_of(family: str, spec: WorkloadSpec) -> Phase:
    """Phase of a workload.

    Args:
        family: The workload's family: encoder, decoder, vision, kernel, ...
        spec: Its mode, and whether it trains.
    """
    if spec.train:
        return "training"
    if family == "decoder":
        return "decode" if spec.mode in ("decode", "generate") else "prefill"
    known: Mapping[str, Phase] = {"encoder": "encoder", "vision": "vision", "kernel": "kernel"}
    return known.get(family, "other")


@cache
def error_of(kind: Class, quantity: Quantity) -> ModelError:
    """The error of this class; if not validated, the range of nine in ten groups of the classes most like it.

    A tail that wasn't validated is wider than the mean by as much as tails are where both were.
    """
    own = _known().get((kind, quantity))
    if own is not None and own.enough:
        return own
    if quantity == "tail":
        mean, factor = error_of(kind, "slowdown"), _tails_are_wider(kind)
        return replace(_pooled([mean]), low=min(mean.low, 1.0) ** factor, high=max(mean.high, 1.0) ** factor)
    return _pooled(list(nearest(kind, quantity).values()))


def directly(kind: Class, quantity: Quantity) -> ModelError | None:
    """The error of times beside others where enough groups were compared; None: from that alone and the slowdown's."""
    own = _known().get((kind, quantity))
    return own if own is not None and own.groups >= FEWEST else None


def _pooled(errors: Sequence[ModelError]) -> ModelError:
    """The range of nine in ten groups of several classes, each group counting the same; it contains 1.

    Within a class, logarithms of ratios are taken to be normal, with the ends of its range exceeded in 5 % of cases.
    """
    low, high = UNKNOWN
    if errors:
        spread = [(NormalDist(*_normal(one)), max(one.groups, 1)) for one in errors]
        low, high = (math.exp(_quantile(spread, share)) for share in (_OUTSIDE, 1 - _OUTSIDE))
    return ModelError(min(low, 1.0), max(high, 1.0), float("nan"), 0, "", like=len(errors))


def _normal(error: ModelError) -> tuple[float, float]:
    low, high = math.log(error.low), math.log(error.high)
    return (low + high) / 2, max(high - low, 1e-9) / 2 / NormalDist().inv_cdf(1 - _OUTSIDE)


def _quantile(spread: Sequence[tuple[NormalDist, int]], share: float) -> float:
    """The value with this share of all groups below it, by bisection."""
    ends = [one.inv_cdf(share) for one, _ in spread]
    low, high, groups = min(ends), max(ends), sum(count for _, count in spread)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(count * one.cdf(middle) for one, count in spread) < share * groups:
            low = middle
        else:
            high = middle
    return high


def _tails_are_wider(kind: Class) -> float:
    """By how much the range of a tail is wider than that of the mean, under the same way to share if known."""

    def width(error: ModelError) -> float:
        return math.log(error.high / error.low)

    known = _known()
    wider = {
        one: width(tail) / width(known[one, "slowdown"])
        for (one, quantity), tail in known.items()
        if quantity == "tail" and (one, "slowdown") in known
    }
    same_way = [factor for one, factor in wider.items() if one.sharing == kind.sharing]
    return max(1.0, *(same_way or wider.values()), 1.0)


def nearest(kind: Class, quantity: Quantity) -> Mapping[Class, ModelError]:
    """The class itself if it was validated, else the validated classes most like it; empty if there is none.

    Classes of the same software under the same way count too: its host costs are the same in every phase, and another
    software's range says little about them.
    """

    def likeness(one: Class) -> tuple[bool, ...]:
        same_way = one.sharing.split()[0] == kind.sharing.split()[0]
        same = one.phase == kind.phase, one.sharing == kind.sharing, one.software == kind.software
        return same_way, *same, one.family == kind.family, one.calibrated == kind.calibrated

    known = {one: error for (one, of), error in _known().items() if of == quantity and error.enough}
    if not known or kind in known:
        return {kind: known[kind]} if known else {}
    closest = max(map(likeness, known))
    executed_alike = (kind.software, kind.sharing, kind.calibrated)
    return {
        one: error
        for one, error in known.items()
        if likeness(one) == closest or (one.software, one.sharing, one.calibrated) == executed_alike
    }


def classes() -> Mapping[tuple[Class, Quantity], ModelError]:
    """Every validated class."""
    return dict(_known())


def reread() -> None:
    """Read the file anew: validation has just written it."""
    _known.cache_clear()
    error_of.cache_clear()


def as_json(errors: Mapping[tuple[Class, Quantity], ModelError]) -> str:
    """The file's text."""
    rows = [
        {**asdict(kind), "quantity": quantity, **asdict(error)}
        for (kind, quantity), error in sorted(errors.items(), key=lambda item: (item[0][0], item[0][1]))
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@cache
def _known() -> Mapping[tuple[Class, Quantity], ModelError]:
    found: dict[tuple[Class, Quantity], ModelError] = {}
    if not FILE.exists():
        return found
    for row in json.loads(FILE.read_text(encoding="utf-8")):
        kind = Class(row["family"], row["software"], row["phase"], row["sharing"], row["calibrated"])
        found[kind, row["quantity"]] = ModelError(
            **{one.name: row[one.name] for one in fields(ModelError) if one.name in row}
        )
    return found
