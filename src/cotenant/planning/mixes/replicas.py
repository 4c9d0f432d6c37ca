"""The number of replicas a tenant needs, and its best possible result."""

from collections.abc import Sequence

import numpy as np

from cotenant.planning.mixes.judge import MixJudge
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.tenants import ServingTenant, Unit, UnitSeat
from cotenant.planning.mixes.why import broken
from cotenant.planning.solver.problem import Bools
from cotenant.text import amount

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def replicas_of(
    tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor
) -> list[int | None]:
    """The smallest number of replicas that each meet the objectives alone on some device; None if no number does."""
    counts: list[int | None] = [1 if tenant.job and tenant.job.gpus > 1 else None for tenant in tenants]
    for count in sorted({*COUNTS, *(tenant.replicas for tenant in tenants if tenant.replicas)}):
        candidates = [
            number
            for number, tenant in enumerate(tenants)
            if counts[number] is None and count == (tenant.replicas or (1 if tenant.job else count))
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


def floors(tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor) -> list[str]:
    """By tenant, the best result on any of these devices with any number of replicas."""
    everyone = list(range(len(tenants)))
    sentences = []
    # A batch takes longer to fill at a lower rate: fewer replicas may be better than more.
    parts = [1 / count for count in COUNTS]
    judges = [_alone(tenants, kinds, predictor, everyone, part) for part in parts]
    for number, tenant in enumerate(tenants):
        strain, sentence, where = min((_closest(judge, number) for judge in judges), key=lambda result: result[0])
        if strain == 0.0:
            count = tenant.replicas or 1  # a number was asked for, else it would have got what it needs
            sentence, where = too_few(tenants, kinds, predictor, number, count)
            given = amount(count, "replica")
            sentences.append(f"{tenant.name} can't serve {tenant.rate_rps:g}/s with {given} on {where}: {sentence}")
        else:
            sentences.append(f"{tenant.name} can't meet its objectives even alone on {where}: {sentence}")
    return sentences


def too_few(
    tenants: Sequence[ServingTenant], kinds: Sequence[DeviceKind], predictor: MixPredictor, number: int, count: int
) -> tuple[str, str]:
    """Which objective this number of replicas misses, and on which device."""
    return _closest(_alone(tenants, kinds, predictor, [number], 1 / count), 0)[1:]


def _closest(judge: MixJudge, unit: int) -> tuple[float, str, str]:
    """Of a unit alone: how far the best way to use a device is from serving it, what it breaks there, and where."""
    results = []
    for option, way in enumerate(judge.ways):
        laid = judge.lay_out(option, np.array([[unit]], np.int64))
        sentence, _, strain, _ = broken(judge, laid, option=option)
        kind = judge.kinds[way.kind].name
        results.append((0.0, "", kind) if bool(laid.fits[0]) else (strain, sentence, kind))
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
