"""Errors of simulated numbers against GPUs, by class, from validation; shipped with the product.

A class is the GPU's family, the tenant's software and phase, what is special about its execution, the way to share,
and whether measured solo times were given. `validated.json` is written by `make validate`: it has the data sets that
studies on simulated devices were compared with, and how errors grow between them (docs/validation.md); none of it is
edited by hand. Ranges are made here, from the data sets like the class asked for.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from cotenant.prediction.data_sets import SET, SOURCE, Between, Bundle, DataSet, EffectSteps, comparable
from cotenant.prediction.gpu import Architecture
from cotenant.text import amount, listed, percent
from cotenant.workloads.protocol import WorkloadSpec

Phase = Literal["prefill", "decode", "encoder", "vision", "training", "kernel", "other"]
Quantity = Literal["time", "slowdown", "tail"]
"""Mean time alone; that beside others relative to alone; a quantile from p90 up relative to alone. A time beside others
has the errors of the time alone and of the slowdown, unless the former was measured."""
MEASURE_IT = 0.4, 2.5
"""The widest range: nothing like it was compared, and a measurement is worth more than a wider range."""
_BUNDLES: Mapping[Quantity, Bundle] = {"time": "alone", "slowdown": "slowdown", "tail": "slowdown"}
_MOST_NAMED = 3
_TWO_SIDES = 1.645
"""Deviations on each side of nine in ten."""
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
    parallel: bool = False
    """Whether its layers are split over several GPUs."""
    experts: bool = False
    """Whether it is a mixture of experts."""
    format: str = ""
    """Format of quantised weights; empty if they have the number format."""

    def __str__(self) -> str:
        given = ", measured solo times given" if self.calibrated else ""
        special = [self.format] * bool(self.format) + ["experts"] * self.experts + ["several GPUs"] * self.parallel
        return ", ".join([self.family, self.software, self.phase, *special, self.sharing]) + given


@dataclass(frozen=True, slots=True)
class ModelError:
    """Distribution of measured values relative to simulated ones."""

    low: float
    """90 % of the values are above this ratio..."""
    high: float
    """... and below this."""
    mean_error: float
    """Mean of |simulated / measured - 1|."""
    n: int
    """Rows behind it; 0 if the class was not validated."""
    data_set: str
    """Sources, by name."""
    law: str = ""
    """A simple law that is closer, fitted without the data set it is judged by; empty if none."""
    groups: int = 0
    """Data sets behind it."""
    like: int = 0
    """Data sets of like classes that lend their range to a class that was not validated."""
    gpus: tuple[str, ...] = ()
    """GPUs that the data sets were measured on."""

    @property
    def around_one(self) -> tuple[float, float]:
        """The range, extended to 1: a plan counts on no bias, since that of some models says little about the next."""
        return min(self.low, 1.0), max(self.high, 1.0)

    @property
    def validated(self) -> bool:
        """Whether several comparable data sets were compared."""
        return self.n > 0

    @property
    def unknown(self) -> bool:
        """Whether the range is so wide that only a measurement tells."""
        return (self.low, self.high) == MEASURE_IT

    @property
    def sentence(self) -> str:
        """`6.9 % off on average over 46 rows of 3 data sets on A100 and V100 (nos, timm)`; or what it borrows."""
        on = f" on {listed(list(self.gpus))}" if self.gpus else ""
        if self.validated:
            nearer = f"; nearer: {self.law}" if self.law else ""
            like = f" of {amount(self.groups, 'data set')}{on}" if self.gpus else ""
            wide = ": measure it" if self.unknown else ""
            return f"{percent(self.mean_error)} off on average over {self.n} rows{like} ({self.data_set}){nearer}{wide}"
        what = "not validated"
        if self.groups:
            what = f"one source ({self.data_set}{on})"
        lent = f"range of {amount(self.like, 'similar data set')}" if self.like else "nothing like it was compared"
        return f"{what}; {lent}{': measure it' if self.unknown or not self.like else ''}"


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


def of_experts(dimensions: Mapping[str, Any]) -> bool:
    """Whether a model's published dimensions are those of a mixture of experts."""
    return any("experts" in name for name in dimensions)


@cache
def error_of(kind: Class, quantity: Quantity) -> ModelError:
    """The error of this class; with fewer than two data sets, it borrows from similar classes.

    A tail is as far off as the mean, and by as much more as tails were where both were compared.
    """
    if quantity == "time":
        kind = replace(kind, calibrated=False)  # measured times say nothing of other sizes' times alone
    between = _between(_BUNDLES[quantity], kind.calibrated)
    low, high = between.range_of(kind)
    if quantity == "tail":
        middle, half = (low + high) / 2, math.hypot((high - low) / 2, _known().tails)
        low, high = middle - half, middle + half
    if high - low > math.log(MEASURE_IT[1] / MEASURE_IT[0]):
        low, high = map(math.log, MEASURE_IT)
    own = between.own(kind)
    validated = len(own) > 1 and quantity != "tail"
    sources = ", ".join(sorted({data_set.source for data_set in own}))
    rows = sum(data_set.n for data_set in own)
    return ModelError(
        round(math.exp(low), 4),
        round(math.exp(high), 4),
        sum(data_set.n * data_set.mean_error for data_set in own) / rows if rows else math.nan,
        rows if validated else 0,
        sources,
        _known().laws.get((kind, quantity), "") if validated else "",
        groups=len(own),
        like=0 if validated else between.like(kind) - len(own),
        gpus=tuple(_short(sorted({data_set.gpu for data_set in own}))),
    )


def nearest(kind: Class, quantity: Quantity) -> Sequence[Class]:
    """The class itself if it was validated, else the compared classes most like it; empty if there is none."""
    between = _between(_BUNDLES[quantity], kind.calibrated)
    if error_of(kind, quantity).validated:
        return [kind]
    known = list(dict.fromkeys(data_set.kind for data_set in between.sets if data_set.kind != kind))

    def alike(other: Class) -> tuple[bool, ...]:
        same_way = other.sharing.split()[0] == kind.sharing.split()[0]
        same = other.phase == kind.phase, other.sharing == kind.sharing, other.software == kind.software
        return same_way, *same, other.family == kind.family

    closest = max(map(alike, known), default=())
    executed = kind.software, kind.sharing
    return [other for other in known if alike(other) == closest or (other.software, other.sharing) == executed]


def classes() -> Mapping[tuple[Class, Quantity], ModelError]:
    """Every class with data sets."""
    quantities: Mapping[Bundle, Quantity] = {"alone": "time", "slowdown": "slowdown"}
    known = dict.fromkeys((data_set.kind, quantities[data_set.bundle]) for data_set in _known().sets)
    return {key: error_of(*key) for key in known}


def reread() -> None:
    """Read the file anew: validation has just written it."""
    for cached in (_known, _between, error_of):
        cached.cache_clear()


@dataclass(frozen=True, slots=True)
class Validated:
    """The content of `validated.json`."""

    sets: tuple[DataSet, ...]
    steps: Mapping[str, EffectSteps]
    """By bundle, with `, measured solo times given` where they were."""
    tails: float
    """Half-width of what tails add to the error of a mean, in logarithms."""
    laws: Mapping[tuple[Class, Quantity], str]


def steps_name(bundle: Bundle, *, calibrated: bool) -> str:
    """The name of a bundle's steps in the file."""
    return f"{bundle}, measured solo times given" if calibrated else bundle


def as_json(validated: Validated) -> str:
    """The file's text."""
    laws = validated.laws.items()
    document: dict[str, Any] = {
        "steps": {name: asdict(steps) for name, steps in validated.steps.items()},
        "tails": validated.tails,
        "laws": [{**asdict(kind), "quantity": quantity, "law": law} for (kind, quantity), law in laws],
        "data_sets": [{**asdict(data_set)["kind"], **asdict(data_set)} for data_set in validated.sets],
    }
    for row in document["data_sets"]:
        del row["kind"]
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _class_in(row: dict[str, Any]) -> Class:
    names = Class.__dataclass_fields__
    return Class(**{name: row.pop(name) for name in names})


def new_source_half() -> float:
    """Half-width, in logarithms, of nine in ten slowdowns that another source measures of the same."""
    steps = _between("slowdown", True).steps
    return _TWO_SIDES * math.hypot(steps.step(SOURCE), steps.step(SET))


@cache
def _known() -> Validated:
    if not FILE.exists():
        return Validated((), {}, 0.0, {})
    document = json.loads(FILE.read_text(encoding="utf-8"))
    laws = {(_class_in(row), row["quantity"]): row["law"] for row in document["laws"]}
    sets = tuple(DataSet(_class_in(row), **row) for row in document["data_sets"])
    return Validated(
        sets, {name: EffectSteps(**row) for name, row in document["steps"].items()}, document["tails"], laws
    )


@cache
def _between(bundle: Bundle, calibrated: bool) -> Between:
    known = _known()
    steps = known.steps.get(steps_name(bundle, calibrated=calibrated)) or known.steps.get(bundle) or _NO_STEPS
    return Between(bundle, comparable(known.sets, bundle, calibrated=calibrated), steps)


_NO_STEPS = EffectSteps({"none": 1.0}, 1.0, 1.0, 1.0)


def _short(gpus: Sequence[str]) -> list[str]:
    """`A100`, `RTX 3090`; the rest of many as a number."""
    names = list(dict.fromkeys(_product(gpu) for gpu in gpus))
    return names if len(names) <= _MOST_NAMED + 1 else [*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} more"]


def _product(gpu: str) -> str:
    words = gpu.upper().split("-")
    return " ".join(words[:2]) if words[0] in ("RTX", "GTX") else words[0]
