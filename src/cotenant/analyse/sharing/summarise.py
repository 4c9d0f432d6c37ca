"""Summarise the observations of a run, tenant by tenant and mix by mix."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf

import numpy as np

from cotenant.analyse.estimates.autocorrelation import Common, common_correlation
from cotenant.analyse.estimates.intervals import BOOTSTRAP_FROM, Floats, Numbers, positive_interval, ratio_interval
from cotenant.analyse.estimates.robust import huber
from cotenant.analyse.sharing.accuracy import FEWEST_REQUESTS, Accuracy, accuracy_of, short_windows_agree, unsteady
from cotenant.analyse.sharing.cells import Cell, counts
from cotenant.analyse.sharing.model_error import of_metric, of_work, widened
from cotenant.analyse.sharing.slowdown import Solos, log_slowdowns, log_times, timed
from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
from cotenant.analyse.sharing.tenant_summary import BY_DEFINITION, NO_SOLO, NO_TRIAL, Baselines, Times, tenant_summary
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.records import JUDGED_ALONE_S, ModelErrorRecord, TenantObservation, Verdict

Key = tuple[Cell, str]
"""A cell, and the name of a tenant in it."""


def summarise(observations: Iterable[TenantObservation]) -> Summary:
    """Summarise runs, each separately.

    Observations of a tenant of a cell must be consecutive; their raw latencies are released as soon as the next
    tenant's arrive, so memory holds a single tenant's at a time.
    """
    groups: dict[Key, list[TenantObservation]] = {}
    times: dict[Key, Times] = {}
    for key, group in groupby(filter(counts, observations), _key):
        if key in groups:
            raise ValueError(f"observations of {key[1]} in {key[0].mix} are not consecutive")
        times[key], groups[key] = _reduced(group)
    baselines = Baselines.of(seen for group in groups.values() for seen in group)
    common = _common(groups, baselines)
    tenants = {
        key: tenant_summary(*key, groups[key], times[key], baselines, common=common[key[0].run])
        for key in sorted(groups)
    }
    cells: dict[Cell, dict[str, list[TenantObservation]]] = {}
    for cell, tenant in tenants:
        cells.setdefault(cell, {})[tenant] = groups[cell, tenant]
    mixes = tuple(
        _mix(cell, members, {name: tenants[cell, name].slowdown for name in members}, baselines)
        for cell, members in cells.items()
    )
    block_seconds = _block_seconds(groups.values())
    return Summary(
        tuple(tenants.values()),
        mixes,
        block_seconds,
        _accuracy(tenants, groups, baselines.time, block_seconds),
        short_windows_agree(timed(group) for group in groups.values()),
        tuple(_doubts(tenants, groups, baselines.time)),
    )


def _key(seen: TenantObservation) -> Key:
    """One row for all members of a group: they replicate each other here."""
    return Cell.of(seen), seen.role


def _reduced(group: Iterable[TenantObservation]) -> tuple[Times, list[TenantObservation]]:
    """The quantiles of a tenant's raw times, and its observations without them."""
    every = list(group)
    return Times.of(every), [replace(seen, latency_ns=None, token_times=None) for seen in every]


def _common(groups: Mapping[Key, Sequence[TenantObservation]], baselines: Baselines) -> dict[str, Common | None]:
    """Correlation of blocks, by run."""
    by_run: dict[str, list[Key]] = {}
    for key in groups:
        by_run.setdefault(key[0].run, []).append(key)
    return {
        run: common_correlation(
            np.array(list(log_slowdowns(groups[key], baselines.time, baselines.calm).values()))
            for key in keys
            if not key[0].solo
        )
        for run, keys in by_run.items()
    }


def _accuracy(
    tenants: Mapping[Key, TenantSummary],
    groups: Mapping[Key, Sequence[TenantObservation]],
    solos: Solos,
    block_seconds: Mapping[str, float],
) -> dict[str, Accuracy]:
    found = {}
    for run, seconds in block_seconds.items():
        shared = [key for key in groups if key[0].run == run and not key[0].solo]
        alone = [key for key in groups if key[0].run == run and key[0].solo]
        accuracy = accuracy_of(
            [
                number.relative_half_width
                for key in shared
                if tenants[key].trials_by_verdict.get("valid")  # other numbers aren't good to anything
                and isinstance(number := tenants[key].slowdown, Estimate)
            ],
            [log_slowdowns(groups[key], solos) for key in shared],
            [log_times(groups[key]) for key in alone],
            seconds,
            [seen.foreign_share for key in (*shared, *alone) for seen in groups[key]],
        )
        if accuracy is not None:
            found[run] = accuracy
    return found


def _doubts(
    tenants: Mapping[Key, TenantSummary],
    groups: Mapping[Key, Sequence[TenantObservation]],
    solos: Solos,
) -> Iterator[str]:
    """Doubts about cells of short windows, which are not judged singly."""
    for key, group in groups.items():
        if min(seen.window_s for seen in group) >= JUDGED_ALONE_S:
            continue
        cell, tenant = key
        where = f"{tenant} in {cell.mix} ({cell.sharing})"
        if 0 < tenants[key].requests < FEWEST_REQUESTS:
            yield f"{where} served only {tenants[key].requests} requests in all windows: measure longer."
        if not cell.solo and (kind := unsteady(log_slowdowns(group, solos))):
            yield f"The slowdown of {where} was not steady over the run: {kind}."


def _mix(
    cell: Cell,
    members: Mapping[str, Sequence[TenantObservation]],
    slowdown: Mapping[str, Number],
    baselines: Baselines,
) -> MixSummary:
    trials = {seen.trial: seen for group in members.values() for seen in group}.values()
    verdicts: Counter[str] = Counter(seen.verdict for seen in trials)
    slowdowns = [log_slowdowns(group, baselines.time, baselines.calm) for group in members.values()]
    blocks = sorted(set.intersection(*(set(logs) for logs in slowdowns)))
    return MixSummary(
        cell=cell,
        tenants=tuple(members),
        blocks=len(blocks),
        slowdown=slowdown,
        metrics=_metrics(
            cell,
            [[logs[block] for logs in slowdowns] for block in blocks],
            verdicts,
            [error for group in members.values() if (error := group[0].model_error) is not None],
        ),
        verdict=_verdict(verdicts),
        failed_checks=Counter(check for seen in trials for check in sorted(set(seen.failed_checks))),
        trials_by_verdict=verdicts,
    )


def _metrics(
    cell: Cell,
    logs_by_block: Sequence[Sequence[float]],
    verdicts: Mapping[str, int],
    errors: Sequence[ModelErrorRecord],
) -> dict[str, Number]:
    if not logs_by_block:
        reason = NO_TRIAL if _verdict(verdicts) == "invalid" else NO_SOLO
        return {name: Missing(reason) for name in METRICS}
    if cell.solo:
        return {name: Estimate(1.0, 1.0, 1.0, len(logs_by_block), BY_DEFINITION) for name in METRICS}
    progress = [np.exp(-np.asarray(logs)) for logs in logs_by_block]
    found: dict[str, Number] = {name: over_blocks(name, progress) for name in METRICS}
    if not errors:
        return found
    # No tenant is faster in company than alone, so tenants do at most what they would do on a device each.
    most = {"fairness": 1.0, "jain": 1.0, "stp": float(len(errors))}
    least = {"antt": 1.0}
    of_each = np.mean(progress, axis=0).tolist()
    return {
        name: widened(
            number,
            of_work(of_each, errors) if name == "stp" else of_metric(name, errors),
            least=least.get(name, 0.0),
            most=most.get(name, inf),
        )
        for name, number in found.items()
    }


def _verdict(verdicts: Mapping[str, int]) -> Verdict:
    total = sum(verdicts.values())
    if verdicts.get("valid", 0) == total:
        return "valid"
    return "invalid" if verdicts.get("invalid", 0) == total else "unstable"


def _block_seconds(groups: Iterable[Sequence[TenantObservation]]) -> dict[str, float]:
    windows = {(seen.run, seen.block, seen.trial): seen.window_s for group in groups for seen in group}
    totals: dict[str, dict[int, float]] = {}
    for (run, block, _), seconds in windows.items():
        blocks = totals.setdefault(run, {})
        blocks[block] = blocks.get(block, 0.0) + seconds
    return {run: sum(blocks.values()) / len(blocks) for run, blocks in sorted(totals.items())}


_STEP = 1e-4
"""Step of a logarithm for numerical slopes."""


def normalised_progress(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time alone over time shared, tenant by tenant. Assumes both were measured in the same block."""
    return np.asarray(solo_time, dtype=np.float64) / np.asarray(shared_time, dtype=np.float64)


def slowdown(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time shared over time alone, tenant by tenant. Assumes both were measured in the same block."""
    return 1 / normalised_progress(solo_time, shared_time)


def stp(progress: Numbers) -> float:
    """System throughput: the sum of progress. Taking turns gives 1; the maximum is the number of tenants."""
    return float(np.sum(progress))


def antt(progress: Numbers) -> float:
    """Average normalised turnaround time: the mean slowdown. 1 is best."""
    return float(np.mean(1 / np.asarray(progress, dtype=np.float64)))


def harmonic_speedup(progress: Numbers) -> float:
    """Tenants over the sum of their slowdowns: low if any one of them suffers badly."""
    return 1 / antt(progress)


def fairness(progress: Numbers) -> float:
    """The least progress over the greatest: 1 if all suffer alike. Noise can only lower it, never raise it past 1."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.min() / data.max())


def jain(progress: Numbers) -> float:
    """Jain's index of progress: 1 if all suffer alike, 1/n if one tenant gets everything."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.sum() ** 2 / (data.size * (data**2).sum()))


METRICS: Mapping[str, tuple[Callable[[Numbers], float], float | None]] = {
    "stp": (stp, None),
    "antt": (antt, None),
    "harmonic_speedup": (harmonic_speedup, None),
    "fairness": (fairness, 1.0),
    "jain": (jain, 1.0),
}
"""Every metric of a mix, with its upper bound."""


def over_blocks(metric: str, progress_by_block: Sequence[Numbers]) -> Estimate:
    """A metric over all blocks with an interval, clipped at the metric's bound.

    From few blocks: the mean of its values in each block. From many short ones: its value at the tenants' mean
    progress, since in a block of a few requests noise alone makes tenants unequal. Assumes identically distributed
    blocks; tenants within a block need not be independent.
    """
    value_of, most = METRICS[metric]
    if len(progress_by_block) < BOOTSTRAP_FROM:
        estimate = positive_interval([value_of(progress) for progress in progress_by_block])
    else:
        estimate = ratio_interval(_at_the_mean(value_of, np.log(np.asarray(progress_by_block, dtype=np.float64))))
    if most is None or estimate.lo is None or estimate.hi is None:
        return estimate
    return Estimate(estimate.est, max(estimate.lo, 0.0), min(estimate.hi, most), estimate.n, estimate.method)


def _at_the_mean(value_of: Callable[[Numbers], float], logs: Floats) -> Floats:
    """The logarithm of a metric at the mean of the blocks' logarithms (blocks x tenants), with each block's influence.

    The mean of the result is the metric's value and its spread the metric's error (delta method).
    """
    robust = [huber(column) for column in logs.T]
    mean = np.array([series.location for series in robust])
    parts = np.stack([series.influence for series in robust], axis=1) - mean
    steps = np.eye(mean.size) * _STEP
    slope = [
        (math.log(value_of(np.exp(mean + step))) - math.log(value_of(np.exp(mean - step)))) / (2 * _STEP)
        for step in steps
    ]
    return np.asarray(math.log(value_of(np.exp(mean))) + parts @ np.array(slope))
