"""A tenant measured alone on a real device, at a single batch size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cotenant.planning.mixes.batching import BatchService
from cotenant.planning.mixes.replicas import hopeless, replicas_of
from cotenant.planning.solver.problem import Floats

if TYPE_CHECKING:
    from cotenant.planning.mixes.kinds import DeviceKind
    from cotenant.planning.mixes.tenants import ServingTenant
    from cotenant.planning.predictors.closed_form import ClosedForm


ONE_BLOCK = 0.1
"""Drift assumed for a single block, which can't show any."""


@dataclass(frozen=True, slots=True)
class SoloTimes:
    """A tenant at a single batch size, measured alone."""

    place: int
    """Index among the solos that the laws know."""
    mean_s: float
    drawn_s: Floats
    """By block, times of its requests."""
    drift: float
    """Standard error of the logarithm of the mean, for another period of the same length."""
    cores: float
    """Share of the device's cores that it keeps busy."""
    bandwidth: float
    memory_bytes: float
    first_s: float | None = None
    step_s: float | None = None
    after_pause_s: Floats | None = None
    """Times of requests that came while nothing ran, if they were measured apart."""
    doubted: bool = False
    """No trial of it alone was valid."""
    in_a_row: int = 1
    """Requests per block: this many in a row are about equally fast."""

    @property
    def usual_s(self) -> float:
        """The median of a request under load that leaves pauses, if that was measured."""
        return float(np.median(self.drawn_s if self.after_pause_s is None else self.after_pause_s))

    def slower(self, factor: float) -> "SoloTimes":
        """The same with all times this much longer."""
        return replace(
            self,
            mean_s=self.mean_s * factor,
            drawn_s=self.drawn_s * factor,
            first_s=None if self.first_s is None else self.first_s * factor,
            step_s=None if self.step_s is None else self.step_s * factor,
            after_pause_s=None if self.after_pause_s is None else self.after_pause_s * factor,
        )

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """Times of requests that follow each other: a slow block stays slow for as long as it was measured."""
        blocks = random.integers(len(self.drawn_s), size=-(-count // self.in_a_row)).repeat(self.in_a_row)[:count]
        return np.asarray(self.drawn_s[blocks, random.integers(self.drawn_s.shape[1], size=count)])


def drift(means_s: Sequence[float], inflation: float) -> float:
    """How far the mean of the next period may be off: both means are of blocks that resemble their neighbours.

    Args:
        means_s: By block.
        inflation: Variance of a mean over that of as many independent blocks.
    """
    count = len(means_s)
    if count == 1:
        return ONE_BLOCK
    # At most that of a single block to come.
    parts = min(2 * inflation / count, 1 + 1 / count)
    return float(np.std(np.log(means_s), ddof=1)) * float(np.sqrt(parts))


# --- batches of a tenant measured alone at several sizes: what waits is served together, up to the planned batch


@dataclass(frozen=True, slots=True)
class Batches:
    """The measured batches of a tenant up to the planned batch."""

    solos: "Mapping[int, SoloTimes]"
    """By batch; the planned batch is the largest."""
    largest: int

    @classmethod
    def of(cls, solos: "Mapping[tuple[int, int], SoloTimes]", tenant: int, batch: int) -> "Batches | None":
        """Those of a tenant; None if the planned batch was not measured."""
        if (tenant, batch) not in solos:
            return None
        mine = {size: solo for (who, size), solo in solos.items() if who == tenant and size <= batch}
        return cls(mine, batch)

    @property
    def growth(self) -> Floats:
        """By number of requests: the batch's time over a single request's. Below the smallest batch, its time."""
        sizes = sorted(self.solos)
        times = np.interp(np.arange(1, self.largest + 1), sizes, [self.solos[size].mean_s for size in sizes])
        return np.asarray(np.maximum.accumulate(times) / times[0])

    @property
    def single(self) -> "SoloTimes":
        """The smallest measured batch: what a lone request takes."""
        return self.solos[min(self.solos)]

    def service(self, stretch: float = 1.0) -> BatchService:
        """Times of batches, in seconds, slowed down by neighbours."""
        growth = self.growth
        single_s = np.array(self.single.mean_s * stretch)
        return BatchService(single_s, single_s * growth[-1], np.array(self.largest))

    def usual(self, rate_rps: float, stretch: float = 1.0) -> float:
        """Requests that usually run together; a job's batches are full."""
        if rate_rps <= 0:
            return float(self.largest)
        return float(self.service(stretch).usual(np.array(rate_rps)))

    def mean_s(self, size: float) -> float:
        """Mean time alone of a batch of this size."""
        return float(self.single.mean_s * np.interp(size, np.arange(1, self.largest + 1), self.growth))

    def like(self, size: float) -> "SoloTimes":
        """The largest measured batch that is not above this size, else the smallest."""
        return self.solos[max((batch for batch in self.solos if batch <= size), default=min(self.solos))]


# --- tensor parallelism in plans: split a model over several GPUs where a single GPU can't serve it

SPANS = (2, 4, 8)
SPLIT = ("encoder", "decoder", "seq2seq")
"""Families of models whose layers can be split."""


def with_spans(
    tenants: "Sequence[ServingTenant]", kinds: "Sequence[DeviceKind]", predictor: "ClosedForm"
) -> "tuple[ServingTenant, ...]":
    """The tenants, each split over as many GPUs of each kind as it needs there.

    Args:
        tenants: Tenants of the plan.
        kinds: Kinds of GPUs.
        predictor: Knows how far each tenant is split; changed accordingly.
    """
    split = list(tenants)
    for kind in kinds:
        splits = [number for number in range(len(split)) if _may_be_split(number, kind, split, predictor)]
        for number in hopeless(split, [kind], predictor, splits):
            _split(number, kind.name, _width(number, kind, split, predictor), split, predictor)
    return tuple(split)


def _width(number: int, kind: "DeviceKind", tenants: "list[ServingTenant]", predictor: "ClosedForm") -> int:
    """Over how many devices each replica is split, so that all replicas take the fewest; 1 if no number serves it.

    Where a model hardly fits, little room is left for requests: fewer replicas over more devices may do.
    """
    fewest, best = np.inf, 1
    for spans in (count for count in SPANS if count <= kind.available):
        if spans >= fewest:
            break
        _split(number, kind.name, spans, tenants, predictor)
        replicas = replicas_of(tenants, [kind], predictor, [number])[number]
        if replicas is not None and replicas * spans < fewest:
            fewest, best = replicas * spans, spans
    return best


def _split(number: int, kind: str, spans: int, tenants: "list[ServingTenant]", predictor: "ClosedForm") -> None:
    kept = {name: count for name, count in tenants[number].spans.items() if name != kind}
    predictor.simulation.spans.pop((kind, number), None)
    if spans > 1:
        kept[kind] = predictor.simulation.spans[kind, number] = spans
    tenants[number] = replace(tenants[number], spans=kept)


def _may_be_split(number: int, kind: "DeviceKind", tenants: "Sequence[ServingTenant]", predictor: "ClosedForm") -> bool:
    """Language models without constraints on the device they share."""
    tenant = tenants[number]
    bound = tenant.near or any(tenant.name in other.near for other in tenants)
    if tenant.job or tenant.parallel > 1 or tenant.isolation == "mig" or tenant.share or bound:
        return False
    spec = predictor.simulation.spec(kind.name, number, tenant.batches[0])
    return not spec.train and predictor.simulation.gpus[kind.name].family(spec) in SPLIT
