"""Questions to Gavel's pairs: new jobs, new families, and how much of a matrix must be measured."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from cotenant.prediction.interference.covariance import GPU, Variances
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.kernels.columns import Ints
from validation.interference.fitting import fit_variances
from validation.interference.gavel_data import LOOKED_AT, SOURCE
from validation.interference.gavel_matrix import Matrix, gavel_matrix
from validation.interference.gavel_product import product_result
from validation.interference.judged import Judged, judged
from validation.interference.protocols import Split, both_new, grown, new_jobs
from validation.result import Measure, Result, Target

NEW_JOB = {"V100": {0: 9.5, 1: 6.0, 3: 5.0}, "P100": {0: 9.5, 3: 7.0}}
"""Targets of mean errors, by GPU and measured pairs of the new job."""
BOTH_NEW = {"V100": 11.5}
MATRIX_PAIRS, MATRIX_ERROR = 50, 5.0
WIDTHS = {"P100": {0: 54.6, 1: 37.7, 2: 32.5, 3: 31.2}}
"""Targets of half-widths for new families."""
KNOWN_WIDTHS = {52: 19.5, 100: 14.3}
"""The same for known families on the V100, by measured pairs."""
BLIND = (
    "How A3C, CycleGAN and Recommendation split into host and device was settled while looking at their pairs: where "
    "one of them is left out, its prior rests on solo times and on FLOPs counted from the architecture (of A3C, whose "
    "FLOPs are a guess, on solo times alone)."
)
FEW, DRAWS = (13, 39, 78), 20
"""Random pairs, and how many times they are drawn."""
AS_GOOD_AS_A_CONSTANT = 1.05
FIXED = {
    "V100": "Variances of the correction are those that ship, fitted on the P100's pairs.",
    "P100": "Variances of the correction were fitted on the V100's pairs for this comparison.",
}


def gavel_results(data: Path) -> Iterator[Result]:
    """Both GPUs."""
    matrices = {gpu: gavel_matrix(data, gpu) for gpu in ("v100", "p100")}
    fitted = fit_variances(matrices["v100"].setting, matrices["v100"].evidence)
    for gpu, other, variances in (("v100", "p100", GPU), ("p100", "v100", fitted)):
        matrix = matrices[gpu]
        yield _few(matrix, variances, float(np.median(matrices[other].evidence.logs)))
        yield from _new_jobs(data, gpu, matrix, variances)
        yield _both_new(data, gpu, matrix, variances)
        yield _whole_matrix(matrix, variances)
        yield from (_known(matrix, variances, pairs) for pairs in KNOWN_WIDTHS)
        yield product_result(gpu, matrix)


def _new_jobs(data: Path, gpu: str, matrix: Matrix, variances: Variances) -> Iterator[Result]:
    @cache
    def of_family(family: str) -> Setting:
        return gavel_matrix(data, gpu, blind={family}).setting if family in LOOKED_AT else matrix.setting

    for pairs in range(4):
        errors = judged(matrix, new_jobs(matrix, variances, pairs, of_family), variances)
        looked_at = new_jobs(matrix, variances, pairs, lambda _: matrix.setting, LOOKED_AT)
        informed = errors.clean(judged(matrix, looked_at, variances, trees=False))
        clean, target = errors.clean(), NEW_JOB[matrix.title].get(pairs)
        yield _result(
            matrix,
            f"a new job of a new family on a {matrix.title}, solo and {pairs} chosen pairs given",
            f"Each job in turn is new, and all jobs of its family are left out; it has been measured alone and beside "
            f"{pairs} known jobs, chosen by `next`. {FIXED[matrix.title]} {BLIND}",
            errors,
            (
                replace(errors.error(target), name="mean abs. error of slowdown, all families"),
                errors.median_error(),
                replace(clean.error(target), name="mean abs. error, the four clean families"),
                replace(informed.error(), name="mean abs. error, with the simulator's constants for the other three"),
                errors.coverage(88.0),
                errors.worst_family(80.0),
                replace(clean.worst_family(80.0), name="90 % intervals that hold, worst clean family"),
                errors.half_width(WIDTHS.get(matrix.title, {}).get(pairs)),
            ),
        )


def _both_new(data: Path, gpu: str, matrix: Matrix, variances: Variances) -> Result:
    @cache
    def without(families: frozenset[str]) -> Setting:
        return gavel_matrix(data, gpu, blind=families & LOOKED_AT).setting

    splits = ((without(frozenset(split.family.split(" + "))), split) for split in both_new(matrix))
    errors = judged(matrix, splits, variances)
    return _result(
        matrix,
        f"both jobs new on a {matrix.title}, solos given",
        f"Every two families are left out at once; pairs between them are predicted. {FIXED[matrix.title]} {BLIND}",
        errors,
        (errors.error(BOTH_NEW.get(matrix.title)), errors.median_error(), errors.coverage()),
    )


def _whole_matrix(matrix: Matrix, variances: Variances) -> Result:
    split = grown(matrix, variances, MATRIX_PAIRS)
    errors = judged(matrix, [(matrix.setting, split)], variances)
    unmeasured = errors.error()
    share = split.test.size / len(matrix.evidence)
    whole = Measure(
        name="mean abs. error over the whole matrix (measured pairs count as 0)",
        value=unmeasured.value * share,
        unit="%",
        n=len(matrix.evidence),
        target=Target(high=MATRIX_ERROR) if matrix.title == "V100" else None,
        baselines={name: value * share for name, value in unmeasured.baselines.items()},
    )
    return _result(
        matrix,
        f"the whole matrix on a {matrix.title} from {MATRIX_PAIRS} of {matrix.evidence.cells} pairs",
        f"Solos and {MATRIX_PAIRS} pairs that `next` chose from none on; the other pairs are predicted. "
        f"{FIXED[matrix.title]}",
        errors,
        (whole, unmeasured, errors.coverage(88.0), errors.half_width()),
    )


def _few(matrix: Matrix, variances: Variances, typical: float) -> Result:
    """Ours beside the constant, and pairs that `next` chose beside random ones."""
    evidence = matrix.evidence
    everything, nothing = np.arange(len(evidence)), np.empty(0, np.int64)
    errors = Judged()
    errors.add(matrix, matrix.setting, Split(nothing, everything, ""), variances, trees=False, typical=typical)
    measures, rows = [_beside_constant(errors, "no pair, the constant of the other GPU")], errors.rows
    for pairs in FEW:
        drawn, chosen = Judged(), Judged()
        for seed in range(DRAWS):
            hit = np.isin(evidence.cell, _drawn(matrix, pairs, seed))
            split = Split(np.flatnonzero(hit), np.flatnonzero(~hit), "")
            drawn.add(matrix, matrix.setting, split, variances, trees=False)
        chosen.add(matrix, matrix.setting, grown(matrix, variances, pairs), variances, trees=False)
        random = drawn.error()
        measures += [
            _beside_constant(drawn, f"{pairs} random pairs, {DRAWS} draws"),
            replace(drawn.coverage(88.0), name=f"90 % intervals that hold after {pairs}"),
            replace(
                chosen.error(), target=_at_most(random.value), name=f"mean abs. error, {pairs} pairs that `next` chose"
            ),
        ]
        rows = rows + drawn.rows
    return replace(
        _result(
            matrix,
            f"none, {', '.join(map(str, FEW[:-1]))} and {FEW[-1]} of {evidence.cells} pairs on a {matrix.title}",
            f"Solos and random pairs are given, the other pairs are predicted. Targets: at most "
            f"{AS_GOOD_AS_A_CONSTANT:g} times the error of the constant, and pairs chosen by `next` are no worse than "
            f"random ones. {FIXED[matrix.title]}",
            errors,
            tuple(measures),
        ),
        rows=tuple(rows),
    )


def _beside_constant(errors: Judged, given: str) -> Measure:
    found = errors.error()
    of_constant = found.baselines["constant"]
    name = f"mean abs. error, {given} (a constant: {of_constant:.3g} %)"
    return replace(found, name=name, target=_at_most(AS_GOOD_AS_A_CONSTANT * of_constant))


def _at_most(error: float) -> Target:
    return Target(high=float(f"{error:.3g}"))


def _drawn(matrix: Matrix, pairs: int, seed: int) -> Ints:
    """Cells of random pairs."""
    return np.random.default_rng(seed).choice(np.unique(matrix.evidence.cell), pairs, replace=False)


def _known(matrix: Matrix, variances: Variances, pairs: int) -> Result:
    errors = Judged()
    for seed in range(5):
        hit = np.isin(matrix.evidence.cell, _drawn(matrix, pairs, seed))
        errors.add(matrix, matrix.setting, Split(np.flatnonzero(hit), np.flatnonzero(~hit), ""), variances, trees=False)
    wide = KNOWN_WIDTHS[pairs] if matrix.title == "V100" else None
    return _result(
        matrix,
        f"{pairs} random pairs on a {matrix.title}",
        f"Five draws of {pairs} pairs; the others are predicted. {FIXED[matrix.title]}",
        errors,
        (errors.error(), errors.coverage(88.0), errors.half_width(wide)),
    )


def _result(matrix: Matrix, what: str, split: str, errors: Judged, measures: tuple[Measure, ...]) -> Result:
    return Result(
        data_set=f"gavel-{matrix.title.lower()}",
        what=what,
        source=SOURCE,
        split=split,
        quantity="slowdown",
        unit="",
        rows=tuple(errors.rows),
        measures=measures,
    )
