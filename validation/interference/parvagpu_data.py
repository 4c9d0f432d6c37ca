"""ParvaGPU: eleven inference models on an A100-80GB, over MIG slices, batches and 1-5 processes under MPS."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.prediction.contention.trace import Trace
from validation.interference.anatomy import Anatomy, Measured
from validation.reading import LeftOutRows, count, number, read_table

FILE = "sharing/a100_mig_mps_parvagpu.csv"
SOURCE = "MunQ-Lee/ParvaGPU_SC24 (SC'24), A100-80GB, MIT"
FITTED = frozenset({"resnet50", "vgg16", "densenet121", "mobilenetv2"})
"""The models the constants of `anatomy` were fitted on."""
WHOLE = 7
SM_SHARE = {1: 1 / 7, 2: 2 / 7, 3: 3 / 7, 4: 4 / 7, 7: 1.0}
DRAM_SHARE = {1: 1 / 8, 2: 2 / 8, 3: 4 / 8, 4: 4 / 8, 7: 1.0}
UNIT_NS = 1e6

_COLUMNS = ("model", "mig_gpcs", "batch", "n_procs_mps", "throughput_per_proc_or_reported")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """A configuration."""

    model: str
    gpcs: int
    batch: int
    processes: int

    def __str__(self) -> str:
        copies = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{self.model}, batch {self.batch}, {self.gpcs}g{copies}"


Throughputs = Mapping[Case, float]


def read_cases(data: Path) -> tuple[Throughputs, frozenset[Case], tuple[str, ...]]:
    """The measured cases, duplicates of other rows, and what is left out."""
    left_out = LeftOutRows()
    measured: dict[Case, float] = {}
    for row in read_table(data, FILE, _COLUMNS):
        model, text = row["model"], row[_COLUMNS[-1]]
        gpcs, batch, processes = (count(row[column], FILE, column) for column in _COLUMNS[1:4])
        throughput = number(text, FILE, _COLUMNS[-1]) if text else 0.0
        if throughput <= 0:
            left_out.add("it ran out of memory (no throughput)", model)
        elif gpcs not in SM_SHARE:
            left_out.add("an A100 has no such slice", f"{gpcs}g")
        else:
            measured[Case(model, gpcs, batch, processes)] = throughput
    for case in [case for case in measured if _solo(case) not in measured]:
        left_out.add("it wasn't measured alone", case.model)
        del measured[case]
    copied = frozenset(
        case
        for case, value in measured.items()
        if measured.get(Case(case.model, case.gpcs, case.batch, case.processes - 1)) == value
    )
    return measured, copied, left_out.sentences()


def measured_time(case: Case, throughput: float) -> Measured:
    """The measured time, for `fit_anatomy`."""
    return Measured(
        batch=case.batch,
        time=case.batch / throughput * 1e3,
        sm_share=SM_SHARE[case.gpcs],
        dram_share=DRAM_SHARE[case.gpcs],
        copies=case.processes,
    )


def trace_of_case(anatomy: Anatomy, case: Case) -> Trace:
    """A request of the case on its slice."""
    return anatomy.trace(case.batch, unit_ns=UNIT_NS, sm_share=SM_SHARE[case.gpcs], dram_share=DRAM_SHARE[case.gpcs])


def is_given(case: Case, model: str) -> bool:
    """One or two processes of this model: groups are predicted from these."""
    return case.model == model and case.processes <= 2


def _solo(case: Case) -> Case:
    return Case(case.model, case.gpcs, case.batch, 1)
