"""ParvaGPU: predict three to five copies of a model from pairs."""

from functools import partial
from pathlib import Path

import numpy as np

from cotenant.prediction.contention.closed_form import log_slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.covariance import GPU, GPU_PRIOR_HALF
from cotenant.prediction.interference.intervals import quantile_up
from cotenant.prediction.interference.predictor import LEVEL, Predictor
from cotenant.prediction.interference.profiles import profiles_of
from cotenant.prediction.interference.setting import mixes_of, setting_of
from validation.interference.anatomy import fit_anatomy
from validation.interference.parvagpu_data import (
    FITTED,
    SOURCE,
    Case,
    Throughputs,
    is_given,
    measured_time,
    read_cases,
    trace_of_case,
)
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

TARGETS = {3: 5.0, 5: 10.0}


def parvagpu_result(data: Path) -> Result:
    """Groups of copies, pairs given."""
    measured, copied, left_out = read_cases(data)
    cases = sorted(
        case for case in measured if case.processes == 1 and _with(case, 2) in measured and _with(case, 2) not in copied
    )
    anatomies = {
        model: fit_anatomy([measured_time(case, measured[case]) for case in measured if is_given(case, model)])
        for model in {case.model for case in cases}
    }
    traces = [trace_of_case(anatomies[case.model], case) for case in cases]
    profiles = profiles_of(traces, [1e9 * case.batch / measured[case] for case in cases])
    setting = setting_of(
        [case.model for case in cases], profiles.features(), partial(log_slowdowns, demands_of(traces))
    )
    predictor = Predictor(setting, _pairs(measured, cases), GPU, prior_half=GPU_PRIOR_HALF)
    rows, sizes, inside = [], [], []
    asked_cases: list[Case] = []
    for copies in (3, 4, 5):
        asked = [
            number
            for number, case in enumerate(cases)
            if _with(case, copies) in measured and _with(case, copies) not in copied
        ]
        predicted = predictor.slowdowns(mixes_of([[number] * copies for number in asked]))
        prior = np.exp(setting.prior(mixes_of([[number] * copies for number in asked])))
        for row, number in enumerate(asked):
            case = cases[number]
            truth = measured[case] / measured[_with(case, copies)]
            pair = measured[case] / measured[_with(case, 2)]
            rows.append(
                Row(
                    case=str(_with(case, copies)),
                    measured=truth,
                    simulated=float(predicted.estimate[row, 0]),
                    baselines={
                        "sum of pairs": 1 + (copies - 1) * (pair - 1),
                        "product of pairs": pair ** (copies - 1),
                        "prior only": float(prior[row, 0]),
                    },
                    held_out=case.model not in FITTED,
                )
            )
            sizes.append(copies)
            asked_cases.append(case)
            inside.append(bool(predicted.low[row, 0] <= truth <= predicted.high[row, 0]))
    return Result(
        data_set="parvagpu-groups",
        what="3 to 5 processes of one model under MPS, pairs and solos given",
        source=SOURCE,
        split=f"Constants of the prior were fitted on {', '.join(sorted(FITTED))}; the other models are held out. "
        "Times of one and two processes separate host and device. Variances of the correction are those that ship, "
        "fitted on a P100. The half-width of what pairs don't show is the widest that these models ask for, each left "
        "out in turn; the last measure judges each model by the half-width that the others ask for.",
        quantity="slowdown",
        unit="",
        rows=tuple(rows),
        measures=(
            absolute_error(rows, of="slowdown"),
            *(_of_size(rows, sizes, copies) for copies in (3, 4, 5)),
            _coverage(rows, inside),
            _of_other_models(rows, sizes, [case.model for case in asked_cases]),
        ),
        left_out=left_out,
        notes=("Rows that repeat the row of one process less to the last digit (out of memory) are left out.",),
    )


def _of_size(rows: list[Row], sizes: list[int], copies: int) -> Measure:
    mine = [row for row, size in zip(rows, sizes, strict=True) if size == copies]
    limit = TARGETS.get(copies)
    return absolute_error(mine, of=f"{copies} processes", target=None if limit is None else Target(high=limit))


def _coverage(rows: list[Row], inside: list[bool]) -> Measure:
    judged = [hit for row, hit in zip(rows, inside, strict=True) if row.held_out]
    return Measure("90 % intervals that hold", 100 * float(np.mean(judged)), "%", len(judged), Target(low=88.0))


def _of_other_models(rows: list[Row], sizes: list[int], models: list[str]) -> Measure:
    """Coverage of each held-out model by the quantile of the others' errors, per doubling of processes."""
    judged = [number for number, row in enumerate(rows) if row.held_out]
    scores = np.array([abs(np.log(rows[n].measured / rows[n].simulated)) / np.log2(sizes[n] / 2) for n in judged])
    owner = np.array([models[n] for n in judged])
    inside = np.zeros(len(judged), bool)
    for model in np.unique(owner):
        own = owner == model
        inside[own] = scores[own] <= quantile_up(scores[~own], LEVEL)
    return Measure("the same by the half-width of other models", 100 * float(inside.mean()), "%", len(judged))


def _pairs(measured: Throughputs, cases: list[Case]) -> Evidence:
    count = len(cases)
    numbers = np.arange(count)
    slowdowns = np.array([measured[case] / measured[_with(case, 2)] for case in cases])
    return Evidence(
        np.column_stack((numbers, numbers)),
        np.log(slowdowns),
        variance=np.zeros(count),
        cell=numbers,
        blocks=np.ones(count, np.int64),
        half=np.zeros(count),
    )


def _with(case: Case, processes: int) -> Case:
    return Case(case.model, case.gpcs, case.batch, processes)
