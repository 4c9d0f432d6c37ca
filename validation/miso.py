"""MISO: training steps of eight models on the MIG slices of an A100-40GB."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.prediction.calibration.anatomy import Measured, told_apart
from validation.copies import request_ns
from validation.leaving_out import LeftOutRows
from validation.measures import absolute_error
from validation.reading import count, positive, read_table
from validation.result import Result, Row

FILE = "sharing/a100_mig_miso.csv"
SOURCE = "boringlee24/socc22-miso (SoCC'22), A100-40GB, MIT"
UNSTEADY = 0.10
"""A row whose mean and median differ by more has no time per iteration."""
FITTED = frozenset({"bert", "deepspeech2", "gnn", "resnet"})
"""Every other model by name: a choice of `anatomy` was made on them."""
WHOLE = "7g.40gb"
SLICES = {
    "1g.5gb": (1 / 7, 1 / 8),
    "2g.10gb": (2 / 7, 2 / 8),
    "3g.20gb": (3 / 7, 4 / 8),
    "4g.20gb": (4 / 7, 4 / 8),
    WHOLE: (1.0, 1.0),
}
"""Shares of SMs and of DRAM bandwidth."""

WHY_FURTHER_OFF = (
    (
        "Further off than inference because these times can't tell, not because the law is wrong: with the slices' "
        "times given too, the same anatomy explains them (last line of the table). From four batches on the whole GPU "
        "alone, a host that works while the device does and one that works before it explain the embedding's times "
        "equally well (0.3 and 0.5 %), and differ by up to a factor of 2 on a 1g slice."
    ),
    (
        "Which of the two it is can't be chosen on the fitted models: they prefer the first (9.9 against 10.0 to "
        "14.6 %), the embedding the second. Traced kernels don't help either (13 to 17 %): these are "
        "TensorFlow's, which take 1.7 to 2.7 times as long as those simulated."
    ),
)

_COLUMNS = ("mig_slice", "model", "batch", "median_s_per_iter", "mean_s_per_iter")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One configuration."""

    model: str
    batch: int
    slice: str


def validate(data: Path) -> tuple[Result, ...]:
    """Slices with the whole GPU given."""
    left_out = LeftOutRows()
    times = _read(data, left_out)
    rows: list[Row] = []
    told: list[Row] = []
    for model in sorted({case.model for case in times}):
        of_model = {case: time for case, time in times.items() if case.model == model}
        whole = {case: time for case, time in of_model.items() if case.slice == WHOLE}
        for case in of_model:
            if Case(model, case.batch, WHOLE) not in whole:
                left_out.add("there is no time of that batch on the whole GPU", model)
        if whole:
            rows += _rows(whole, of_model, given=whole)
            told += _rows(whole, of_model, given=of_model)
    result = Result(
        data_set="miso",
        what="speed of training on MIG slices, times on the whole GPU given",
        source=SOURCE,
        split=f"Where sizes are looked for was chosen on {', '.join(sorted(FITTED))} (every other model by name) and "
        "on ParvaGPU's four fitted models; the other models are held out: times on the whole GPU over batches are "
        "given, nothing that was measured on a slice.",
        quantity="speed of a slice / speed of the whole GPU",
        unit="",
        rows=tuple(rows),
        measures=(
            absolute_error(rows, of="relative speed"),
            absolute_error(told, of="relative speed, had the slices' times been given too"),
        ),
        stands_for="mig",
        notes=WHY_FURTHER_OFF,
        left_out=left_out.sentences(),
    )
    return (result,)


def slices(data: Path) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Slices told from times on the whole GPU: all that there are, and solo times, which are the same here."""
    rows = validate(data)[0].rows
    return rows, rows


def _rows(whole: Mapping[Case, float], times: Mapping[Case, float], *, given: Mapping[Case, float]) -> list[Row]:
    """One model's slices, from what is given of its times."""
    anatomy = told_apart(
        [
            Measured(batch=case.batch, time=time, sm_share=SLICES[case.slice][0], dram_share=SLICES[case.slice][1])
            for case, time in given.items()
        ]
    )
    best = max(case.batch / time for case, time in whole.items())
    rows = []
    for case, time in sorted(times.items()):
        on_whole = Case(case.model, case.batch, WHOLE)
        if case == on_whole or on_whole not in whole:
            continue
        sm_share, dram_share = SLICES[case.slice]
        used = case.batch / whole[on_whole] / best
        on_slice = anatomy.trace(case.batch, unit_ns=1e9, sm_share=sm_share, dram_share=dram_share)
        rows.append(
            Row(
                case=f"{case.model}, batch {case.batch}, {case.slice}",
                measured=whole[on_whole] / time,
                simulated=request_ns([anatomy.trace(case.batch, unit_ns=1e9)])[0] / request_ns([on_slice])[0],
                baselines={"linear in slices": sm_share, "min(1, share/u)": min(1.0, sm_share / used)},
                held_out=case.model not in FITTED,
            )
        )
    return rows


def _read(data: Path, left_out: LeftOutRows) -> Mapping[Case, float]:
    times = {}
    for row in read_table(data, FILE, _COLUMNS):
        batch = count(row["batch"], FILE, "batch")
        typical, mean = (positive(row[name], FILE, name) for name in ("median_s_per_iter", "mean_s_per_iter"))
        if row["mig_slice"] not in SLICES:
            left_out.add("an A100-40GB has no such slice", row["mig_slice"])
        elif abs(mean / typical - 1) > UNSTEADY:
            left_out.add(f"mean and median differ by more than {UNSTEADY:.0%}", row["model"])
        else:
            times[Case(row["model"], batch, row["mig_slice"])] = typical
    return times
