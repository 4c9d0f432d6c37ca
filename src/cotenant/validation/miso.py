"""MISO: training steps of eight models on the MIG slices of an A100-40GB."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.simulated.anatomy import Measured, told_apart
from cotenant.validation.copies import request_ns
from cotenant.validation.measures import absolute_error
from cotenant.validation.reading import number, read_table
from cotenant.validation.result import Result, Row, Target

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

_COLUMNS = ("mig_slice", "model", "batch", "median_s_per_iter", "mean_s_per_iter")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One configuration."""

    model: str
    batch: int
    slice: str


def validate(data: Path) -> tuple[Result, ...]:
    """Slices with the whole GPU given."""
    times, unsteady = _read(data)
    rows = []
    for model in sorted({case.model for case in times}):
        whole = {case.batch: time for case, time in times.items() if (case.model, case.slice) == (model, WHOLE)}
        if whole:
            rows += _rows(model, whole, times)
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
        measures=(absolute_error(rows, of="relative speed", target=Target(high=8.0)),),
        stands_for="mig",
        notes=(
            f"{unsteady} rows of deepspeech2 and gnn are left out: mean and median differ by more than {UNSTEADY:.0%}.",
        ),
    )
    return (result,)


def _rows(model: str, whole: Mapping[int, float], times: Mapping[Case, float]) -> list[Row]:
    anatomy = told_apart([Measured(batch=batch, time=time) for batch, time in whole.items()])
    best = max(batch / time for batch, time in whole.items())
    rows = []
    for case, time in sorted(times.items()):
        if case.model != model or case.slice == WHOLE or case.batch not in whole:
            continue
        sm_share, dram_share = SLICES[case.slice]
        used = case.batch / whole[case.batch] / best
        on_slice = anatomy.trace(case.batch, unit_ns=1e9, sm_share=sm_share, dram_share=dram_share)
        on_whole = anatomy.trace(case.batch, unit_ns=1e9)
        rows.append(
            Row(
                case=f"{model}, batch {case.batch}, {case.slice}",
                measured=whole[case.batch] / time,
                simulated=request_ns([on_whole])[0] / request_ns([on_slice])[0],
                baselines={"linear in slices": sm_share, "min(1, share/u)": min(1.0, sm_share / used)},
                held_out=model not in FITTED,
            )
        )
    return rows


def _read(data: Path) -> tuple[Mapping[Case, float], int]:
    times, unsteady = {}, 0
    for row in read_table(data, FILE, _COLUMNS):
        typical = number(row["median_s_per_iter"], FILE, "median_s_per_iter")
        mean = number(row["mean_s_per_iter"], FILE, "mean_s_per_iter")
        if abs(mean / typical - 1) > UNSTEADY:
            unsteady += 1
        else:
            times[Case(row["model"], int(row["batch"]), row["mig_slice"])] = typical
    return times, unsteady
