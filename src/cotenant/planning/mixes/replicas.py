"""The number of replicas a tenant needs, and its best possible result."""

from collections.abc import Sequence

import numpy as np

from cotenant.planning.mixes.judge import MixJudge
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.serving_plan import MAY_FIT, Measurement
from cotenant.planning.mixes.tenants import ServingTenant, Unit, UnitSeat
from cotenant.planning.mixes.why import broken
from cotenant.planning.solver.problem import Bools
from cotenant.tenancy.ways import ALONE
from cotenant.text import amount

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def replicas_of(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
    who: Sequence[int] | None = None,
) -> list[int | None]:
    """The smallest number of replicas that each meet the objectives alone on some device; None if no number does.

    Only for some of the tenants if given.
    """
    counts: list[int | None] = [1 if tenant.job and tenant.job.gpus > 1 else None for tenant in tenants]
    asked = range(len(tenants)) if who is None else who
    for count in sorted({*COUNTS, *(tenant.replicas for tenant in tenants if tenant.replicas)}):
        candidates = [
            number
            for number in asked
            if counts[number] is None and count == (tenants[number].replicas or (1 if tenants[number].job else count))
        ]
        if not candidates:
            continue
        fits = _fit(_alone(tenants, kinds, predictor, candidates, 1 / count))
        for number, fit in zip(candidates, fits, strict=True):
            if fit:
                counts[number] = count
    return counts


def hopeless(
    tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor, who: Sequence[int]
) -> list[int]:
    """Those of some tenants that even the largest number of replicas wouldn't serve, where a lower rate never hurts."""
    unserved = []
    by_count: dict[int, list[int]] = {}
    for number in who:
        tenant = tenants[number]
        by_count.setdefault(tenant.replicas or (1 if tenant.job else COUNTS[-1]), []).append(number)
    for count, numbers in by_count.items():
        fits = _fit(_alone(tenants, kinds, predictor, numbers, 1 / count))
        unserved += [number for number, fit in zip(numbers, fits, strict=True) if not fit]
    return sorted(unserved)


def _fit(judge: MixJudge) -> Bools:
    """By unit: whether some way to use some device serves it alone."""
    fits = np.zeros(len(judge.units), dtype=bool)
    # A part of a device serves nobody alone whom the whole doesn't, unless it asks for a part.
    parts = any(tenant.isolation == "mig" or tenant.share is not None for tenant in judge.tenants)
    whole = any(not way.divides for way in judge.ways)
    for option, way in enumerate(judge.ways):
        if way.divides and whole and not parts:
            continue
        left = np.flatnonzero(~fits)
        if left.size:
            fits[left] = judge.lay_out(option, left[:, None]).fits
    return fits


def floors(
    tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor
) -> list[tuple[str, Measurement | None]]:
    """By tenant, the best result on any of these devices with any number of replicas, and what may settle it."""
    everyone = list(range(len(tenants)))
    found: list[tuple[str, Measurement | None]] = []
    # A batch takes longer to fill at a lower rate: fewer replicas may be better than more.
    parts = [1 / count for count in COUNTS]
    judges = [_alone(tenants, kinds, predictor, everyone, part) for part in parts]
    for number, tenant in enumerate(tenants):
        results = [_closest(judge, number) for judge in judges]
        strain, sentence, where, _ = min(results, key=lambda result: result[0])
        may_fit = ((count, device) for count, (*_, device, open_) in zip(COUNTS, results, strict=True) if open_)
        fewest, there = next(may_fit, (0, ""))
        measure = Measurement((tenant.name,), there, ALONE, MAY_FIT, replicas=fewest) if fewest else None
        if strain == 0.0:
            count = tenant.replicas or 1  # a number was asked for, else it would have got what it needs
            sentence, where = too_few(tenants, kinds, predictor, number, count)
            given = amount(count, "replica")
            failing = f"{tenant.name} can't serve {tenant.rate_rps:g}/s with {given} on {where}: {sentence}"
        else:
            failing = f"{tenant.name} can't meet its objectives even alone on {where}: {sentence}"
        found.append((failing, measure))
    return found


def too_few(
    tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor, number: int, count: int
) -> tuple[str, str]:
    """Which objective this number of replicas misses, and on which device."""
    return _closest(_alone(tenants, kinds, predictor, [number], 1 / count), 0)[1:3]


def _closest(judge: MixJudge, unit: int) -> tuple[float, str, str, bool]:
    """Of a unit alone, on the device that serves it best: how far from it, what breaks, where, and if only ends do."""
    results = []
    for option, way in enumerate(judge.ways):
        laid = judge.lay_out(option, np.array([[unit]], np.int64))
        sentence, _, strain, undecided = broken(judge, laid, option=option)
        kind = judge.kinds[way.kind].name
        results.append((0.0, "", kind, False) if bool(laid.fits[0]) else (strain, sentence, kind, undecided))
    return min(results, key=lambda result: result[0])


def _alone(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
    who: Sequence[int],
    part: float,
) -> MixJudge:
    units = [Unit((UnitSeat(number, tenants[number].rate_rps * part),)) for number in who]
    return MixJudge(tenants, kinds, units, predictor)
