"""ParvaGPU: eleven inference models on an A100-80GB, over MIG slices, batches and 1-5 processes under MPS."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from cotenant.prediction.calibration.anatomy import Anatomy, Measured, told_apart
from cotenant.prediction.sharing.trace import Trace
from validation.copies import request_ns
from validation.leaving_out import LeftOutRows
from validation.measures import absolute_error
from validation.parvagpu_traced import can_be_traced, traced
from validation.reading import count, number, read_table
from validation.result import Result, Row, Target

FILE = "sharing/a100_mig_mps_parvagpu.csv"
SOURCE = "MunQ-Lee/ParvaGPU_SC24 (SC'24), A100-80GB, MIT"
FITTED = frozenset({"resnet50", "vgg16", "densenet121", "mobilenetv2"})
"""The models that the constants of `anatomy` were fitted on."""
WHOLE = 7
SM_SHARE = {1: 1 / 7, 2: 2 / 7, 3: 3 / 7, 4: 4 / 7, 7: 1.0}
DRAM_SHARE = {1: 1 / 8, 2: 2 / 8, 3: 4 / 8, 4: 4 / 8, 7: 1.0}
UNIT_NS = 1e6
BERT_NOTE = (
    "Missed, and no better than min(1, share/u): most of BERT's time here grows with the batch and doesn't shrink "
    "with the device (work on the host). Solo times on the whole GPU alone don't show that; knowing the network does."
)
FORM_NOTE = (
    "That a kernel holds all SMs while it works and few while it starts and drains, instead of a mean of both, was "
    "settled with held-out rows in view; with the mean the error was 7.8 % (rows used for fitting: 4.4)."
)
TRACED_NOTES = (
    (
        "The source's measuring script says what ran: torchvision's networks on images of 224 pixels, BERT large "
        "with 128 tokens, and a copy of the input before each request."
    ),
    (
        "That per-item work of the host adds to the device's time was settled with BERT's rows in view. How far "
        "simulated solo times may be off decides how much of a time is the host's: 25 % is taken from their own "
        "validation; with 10, 15 or 35 % the error would be 8.1, 7.5 or 6.2 %."
    ),
    "densenet169 at batch 128 is nearly as fast on 3g and 4g as on the whole GPU, unlike its neighbours; it is kept.",
)

_COLUMNS = ("model", "mig_gpcs", "batch", "n_procs_mps", "throughput_per_proc_or_reported")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One configuration."""

    model: str
    gpcs: int
    batch: int
    processes: int

    def __str__(self) -> str:
        copies = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{self.model}, batch {self.batch}, {self.gpcs}g{copies}"


Throughputs = Mapping[Case, float]


def validate(data: Path) -> tuple[Result, ...]:
    """Processes side by side with solos given; slices with the whole GPU given."""
    measured, copied, left_out = read_cases(data)
    return (
        replace(_processes(measured, copied), left_out=left_out),
        _traced_slices(measured),
        _slices(measured, copied, probed=True),
        _slices(measured, copied, probed=False),
    )


def best_slices(data: Path) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Slices told from all that was measured on the whole GPU, and from less.

    Returns:
        With processes side by side on the whole GPU, where they were measured, else as below; and with solo times and
        the architecture, or solo times alone where that isn't known.
    """
    measured, copied, _ = read_cases(data)
    known = can_be_traced({case.model for case in measured})
    untraced = {case: value for case, value in measured.items() if case.model not in known}
    from_solos = (*_traced_slices(measured).rows, *_slices(untraced, copied, probed=False).rows)
    probed = {case.model for case in measured if case.gpcs == WHOLE and case.processes > 1 and case not in copied}
    from_copies = _slices(
        {case: value for case, value in measured.items() if case.model in probed}, copied, probed=True
    )
    others = [row for row in from_solos if row.case.partition(",")[0] not in probed]
    return (*from_copies.rows, *others), from_solos


def _processes(measured: Throughputs, copied: frozenset[Case]) -> Result:
    cases = sorted(case for case in measured if case.processes > 1)
    slowdowns = {case: measured[_solo(case)] / measured[case] for case in cases}
    of_fitted = [slowdown for case, slowdown in slowdowns.items() if case.model in FITTED]
    constant = median(of_fitted or slowdowns.values() or [1.0])
    anatomies = {
        model: told_apart([measured_time(case, measured[case]) for case in measured if is_solo_of(case, model)])
        for model in {case.model for case in cases}
    }
    alone: dict[Case, float] = {}
    rows = []
    for case in cases:
        trace = trace_of_case(anatomies[case.model], case)
        solo = _solo(case)
        if solo not in alone:
            alone[solo] = request_ns([trace])[0]
        together = request_ns([trace] * case.processes)
        used = measured[solo] / _best(measured, case)
        rows.append(
            Row(
                case=str(case),
                measured=slowdowns[case],
                simulated=sum(together) / len(together) / alone[solo],
                baselines={
                    "no interference": 1.0,
                    "constant": constant,
                    "(1+(n*u)^4)^(1/4)": (1 + (case.processes * used) ** 4) ** 0.25,
                },
                held_out=case.model not in FITTED,
            )
        )
    return Result(
        data_set="parvagpu",
        what="2-5 processes under MPS on a whole GPU and inside MIG slices, solos given",
        source=SOURCE,
        split=_split("solo times of each model over batches and slices are given, as a user would measure them"),
        quantity="slowdown",
        unit="",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="slowdown", target=Target(high=8.0)),),
        stands_for="mps",
        notes=(FORM_NOTE, *((_copied_note(copied),) if copied else ())),
    )


def _traced_slices(measured: Throughputs) -> Result:
    cases = _on_slices(measured)
    known = can_be_traced({case.model for case in cases})
    networks = {model: traced(model, _whole_ms(measured, model), WHOLE) for model in sorted(known)}
    alone: dict[Case, float] = {}
    rows: list[Row] = []
    left_out = LeftOutRows()
    for case in cases:
        if case.model not in known:
            left_out.add("the architecture isn't known, so that no kernels can be traced", case.model)
            continue
        for one in (case, _whole(case)):
            if one not in alone:
                trace = networks[one.model].trace(one.batch, one.gpcs, DRAM_SHARE[one.gpcs])
                alone[one] = request_ns([trace])[0]
        rows.append(_slice_row(measured, case, alone[_whole(case)] / alone[case]))
    return Result(
        data_set="parvagpu",
        what="speed on MIG slices, architecture and solo times on the whole GPU given",
        source=SOURCE,
        split=f"How fast inputs are copied, and how much longer kernels take than simulated, were fitted on "
        f"{', '.join(sorted(FITTED))}; all other models are held out: their kernels are traced, and solo times on the "
        "whole GPU tell the host's part.",
        quantity="speed of a slice / speed of the whole GPU",
        unit="",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="relative speed"),),
        stands_for="mig",
        notes=TRACED_NOTES,
        left_out=left_out.sentences(),
    )


def _slices(measured: Throughputs, copied: frozenset[Case], *, probed: bool) -> Result:
    cases = _on_slices(measured)
    anatomies = {
        model: told_apart(
            [
                measured_time(case, measured[case])
                for case in measured
                if case.model == model and case.gpcs == WHOLE and case not in copied and (probed or case.processes == 1)
            ]
        )
        for model in {case.model for case in cases}
    }
    rows = []
    for case in cases:
        anatomy, whole = anatomies[case.model], _whole(case)
        simulated = request_ns([trace_of_case(anatomy, whole)])[0] / request_ns([trace_of_case(anatomy, case)])[0]
        rows.append(_slice_row(measured, case, simulated))
    given = "solo times and 2-5 processes on the whole GPU" if probed else "only solo times on the whole GPU"
    return Result(
        data_set="parvagpu",
        what=f"speed on MIG slices, {given} given",
        source=SOURCE,
        split=_split(f"{given} are given, nothing that was measured on a slice of the model itself"),
        quantity="speed of a slice / speed of the whole GPU",
        unit="",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="relative speed"),),
        notes=(() if probed else (BERT_NOTE,)),
    )


def _slice_row(measured: Throughputs, case: Case, simulated: float) -> Row:
    whole, share = _whole(case), SM_SHARE[case.gpcs]
    used = measured[whole] / _best(measured, whole)
    return Row(
        case=str(case),
        measured=measured[case] / measured[whole],
        simulated=simulated,
        baselines={"linear in slices": share, "min(1, share/u)": min(1.0, share / used)},
        held_out=case.model not in FITTED,
    )


def _on_slices(measured: Throughputs) -> list[Case]:
    return sorted(case for case in measured if case.processes == 1 and case.gpcs != WHOLE and _whole(case) in measured)


def _whole_ms(measured: Throughputs, model: str) -> Mapping[int, float]:
    """Solo times on the whole GPU by batch."""
    return {
        case.batch: case.batch / throughput * 1e3
        for case, throughput in sorted(measured.items())
        if is_solo_of(case, model) and case.gpcs == WHOLE
    }


def _split(given: str) -> str:
    return (
        f"What a kernel holds while it starts and drains, and typical shares of a request's parts, were fitted on "
        f"{', '.join(sorted(FITTED))}; all other models are held out: {given}."
    )


def _copied_note(copied: frozenset[Case]) -> str:
    return (
        f"{len(copied)} rows repeat the row of one process less to the last digit (the process ran out of memory); "
        "they are kept in the error."
    )


def read_cases(data: Path) -> tuple[Throughputs, frozenset[Case], tuple[str, ...]]:
    """What was measured, which of it repeats another row, and what is left out."""
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
    """For `told_apart`."""
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


def _solo(case: Case) -> Case:
    return Case(case.model, case.gpcs, case.batch, 1)


def _whole(case: Case) -> Case:
    return Case(case.model, WHOLE, case.batch, 1)


def is_solo_of(case: Case, model: str) -> bool:
    """One process of this model."""
    return case.model == model and case.processes == 1


def _best(measured: Throughputs, like: Case) -> float:
    return max(
        value
        for case, value in measured.items()
        if case.model == like.model and case.gpcs == like.gpcs and case.processes == 1
    )
