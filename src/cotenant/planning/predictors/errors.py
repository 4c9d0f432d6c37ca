"""How far real times may be from a plan's simulated ones, by tenant and way to share."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.solver.problem import Floats
from cotenant.prediction.contention import DIFFERENCES
from cotenant.tenancy.ways import SCHEDULED
from cotenant.text import listed

if TYPE_CHECKING:
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.prediction.trust import Class, Quantity

CLOSED_FORM_ERROR = 0.15
"""Mean error of the closed form's queue, in addition to that of its slowdowns and to the simulation's own."""
STATED = 0.05
"""Part of the measured values above the upper end of a validated range."""
MOST_LENDERS = 3
"""Classes of which a borrowed range comes that are named, the others as a number."""


class SimulationErrors:
    """Ranges of the validated classes (docs/validation.md), at the plan's risk."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._known: dict[tuple[str, int, str, bool], tuple[Floats, Floats]] = {}

    def factors(self, mixes: Mixes, *, closed: bool) -> tuple[Floats, Floats]:
        """Ends of the interval over the estimate: mixes x seats.

        Args:
            mixes: The mixes.
            closed: True if the closed form computed them, False for the engine.
        """
        crowded = np.broadcast_to((mixes.there.sum(axis=1) > 1)[:, None], mixes.tenants.shape)
        cases = np.stack([mixes.tenants, crowded, np.isfinite(mixes.share)], axis=-1).reshape(-1, 3)
        distinct, index = np.unique(cases, axis=0, return_inverse=True)
        ends = np.ones((len(distinct), 2))
        for row, (tenant, shared, limited) in enumerate(distinct):
            if tenant >= 0:
                way = _way(mixes.sharing, shared=bool(shared), limited=bool(limited))
                ends[row] = self._ends(mixes.device, int(tenant), way, closed=closed)
        factors = ends[index.reshape(mixes.tenants.shape)]
        return factors[..., 0], factors[..., 1]

    def doubts(self, mixes: Mixes) -> tuple[tuple[str, ...], ...]:
        """Mixes x seats: what nothing validates, and where the range comes from instead; empty if all is validated."""
        several = mixes.there.sum(axis=1) > 1
        return tuple(
            tuple(
                self._doubt(mixes.device, int(tenant), _way(mixes.sharing, shared=bool(shared), limited=bool(held)))
                if tenant >= 0
                else ""
                for tenant, held in zip(row, np.isfinite(shares), strict=True)
            )
            for row, shares, shared in zip(mixes.tenants, mixes.share, several, strict=True)
        )

    def _doubt(self, device: str, tenant: int, way: str) -> str:
        from cotenant.prediction.trust import nearest

        doubts = []
        for kind, quantity in self._classes(device, tenant, way, tenant in self._simulation.measured):
            near = nearest(kind, quantity)
            if kind not in near:
                lenders = list(dict.fromkeys(_different(known, kind) for known in near))
                if len(lenders) > MOST_LENDERS:
                    lenders[MOST_LENDERS - 1 :] = [f"{len(lenders) - MOST_LENDERS + 1} other classes"]
                others = listed(lenders) or "the widest known"
                what = "time alone" if quantity == "time" else f"slowdown under {kind.sharing}"
                doubts.append(f"{what} of {kind.software} {kind.phase} on {kind.family} (range of {others})")
        if self._simulation.spans_of(device, tenant) > 1:
            doubts.append("tensor parallelism")
        return " and ".join(doubts)

    @cached_property
    def queue(self) -> float:
        """Half-width of the closed form's queue, for slowdowns that were measured."""
        return float(np.expm1(self._scale * _law(CLOSED_FORM_ERROR)))

    def _ends(self, device: str, tenant: int, way: str, *, closed: bool) -> tuple[float, float]:
        key = device, tenant, way, tenant in self._simulation.measured
        if key not in self._known:
            self._known[key] = self._logs(*key)
        law = float(np.hypot(_law(CLOSED_FORM_ERROR), _law(DIFFERENCES.get(way, 0.0)))) if closed else 0.0
        low, high = (float(np.hypot.reduce([*logs, law])) for logs in self._known[key])
        return float(np.exp(-self._scale * low)), float(np.exp(self._scale * high))

    def _logs(self, device: str, tenant: int, way: str, measured: bool) -> tuple[Floats, Floats]:
        """Logarithms of both ends: of the time alone, unless it was measured or is a job's, and of the slowdown."""
        from cotenant.prediction.trust import error_of

        ranges = [error_of(*question).around_one for question in self._classes(device, tenant, way, measured)]
        logs = np.abs(np.log(np.array(ranges).reshape(-1, 2)))
        return logs[:, 0], logs[:, 1]

    def _classes(self, device: str, tenant: int, way: str, measured: bool) -> "list[tuple[Class, Quantity]]":
        from cotenant.prediction.gpu import Architecture
        from cotenant.prediction.trust import Class, Phase, Quantity, of_experts, phase_of

        spec = self._simulation.spec(device, tenant, self._simulation.tenants[tenant].batches[0])
        gpu = self._simulation.gpus[device]
        stated = self._simulation.tenants[tenant].job is not None  # its owner says how long it takes alone
        questions: list[tuple[str, Quantity]] = [] if measured or stated else [("alone", "time")]
        if way != "alone":
            questions.append((way, "slowdown"))
        phase = phase_of(gpu.family(spec), spec)
        several = self._simulation.spans_of(device, tenant) > 1
        experts = of_experts(gpu.describing.dimensions(spec.name) or {})
        made: tuple[Architecture, str, Phase] = gpu.gpu.architecture, spec.software or "eager", phase
        return [
            (Class(*made, sharing, measured, several, experts, spec.quantised or ""), quantity)
            for sharing, quantity in questions
        ]

    @property
    def _scale(self) -> float:
        """Converts a range's ends, exceeded in 5 % of cases, to the risk."""
        from scipy.special import ndtri

        return float(ndtri(1 - self._simulation.risk) / ndtri(1 - STATED))


def _different(known: "Class", asked: "Class") -> str:
    """A class by its differences from another."""
    parts = ((known.software, asked.software), (known.phase, asked.phase), (known.family, asked.family))
    words = [mine for mine, other in parts if mine != other] or ["the same"]
    words += [f"under {known.sharing}"] if known.sharing != asked.sharing else []
    words += ["with measured solo times" if known.calibrated else "without them"] * (
        known.calibrated != asked.calibrated
    )
    return " ".join(words)


def _way(sharing: str, *, shared: bool, limited: bool) -> str:
    """The sharing as validation names it; a MIG instance is slower than the whole GPU even without neighbours."""
    if sharing == "mig":
        return "mig"
    if not shared or sharing == SCHEDULED:
        return "alone"  # one request at a time, on the whole device
    if sharing == "streams":
        return "mps"  # nothing public validates streams; the same kernels run side by side
    return "mps with shares" if sharing == "mps" and limited else sharing


def _law(error: float) -> float:
    """A mean error of the closed form as the logarithm of a range's end, if its errors are normal."""
    from scipy.special import ndtri

    return float(np.log1p(error * np.sqrt(np.pi / 2) * ndtri(1 - STATED)))
