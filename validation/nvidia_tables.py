"""Inference of ResNet-50 and BERT as NVIDIA published it, by many frameworks: V100, A100, T4, A30."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DataError
from cotenant.prediction.kernels.columns import TRANSFER, Kernels
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.fusion import Fusion, Tf32, kernels_of
from cotenant.prediction.kernels.solo import request_ns
from cotenant.workloads.catalogue import find
from cotenant.workloads.protocol import Dtype, WorkloadSpec
from validation.leaving_out import LeftOutRows
from validation.measures import absolute_error, rank_correlation
from validation.reading import HINT, count, positive, read_table
from validation.result import Result, Row, Target

_FILE = "solo/inference_nvidia_dle.csv"
_COLUMNS = ("model", "gpu", "precision", "batch", "seq", "throughput", "backend", "section", "source_path")
_GPUS = {
    "A100-80GB": "a100-sxm4-80gb",
    "A100-40GB": "a100-sxm4-40gb",
    "A100": "a100-sxm4-40gb",
    "V100-16GB": "v100-sxm2-16gb",
    "V100": "v100-sxm2-16gb",
    "V100-32GB": "v100-sxm2-32gb",
    "T4": "t4",
    "A30": "a30",
}
_SEQ = 384
"""Tokens of the tables that don't say (SQuAD)."""
_FALL = 0.75
"""Where a table's throughput falls below this share with a larger batch, the rows before were made in another mode."""


@dataclass(frozen=True, slots=True)
class _Software:
    """How one source runs a model, and what its host costs; the costs are fitted on its V100 rows."""

    fusion: Fusion
    tf32: Tf32 = "none"
    request_us: float = 0.0
    """Once per request."""
    launch_us: float = 0.0
    """Per launch, while the device works on what was launched before."""
    wait_us: float = 0.0
    """Per launch, while the device waits."""
    slower: float = 1.0
    """Its kernels against those of the best library."""


_SOFTWARE = {
    "PyTorch": _Software("eager", request_us=300, launch_us=58),
    "PyTorch AMP": _Software("eager", request_us=600, launch_us=74),
    "MXNet": _Software("eager", request_us=1000, launch_us=16),
    "TensorFlow 1": _Software("compile", request_us=1000, wait_us=10),
    "TensorFlow 2": _Software("compile", tf32="all", wait_us=18),
    "Triton, ONNX Runtime": _Software("eager", request_us=1000, wait_us=3, slower=1.3),
    "Triton, ONNX Runtime with TensorRT": _Software("engine", wait_us=6),
    "Triton, PyTorch": _Software("eager", launch_us=30, slower=1.1),
    "Triton, TensorRT": _Software("engine", request_us=1000, wait_us=3),
}


_TF2_TABLES = {"V100-16GB": 830, "V100-32GB": 888, "A100-80GB": 947, "T4": 1005}
"""Lines of TensorFlow 2's page at which each GPU's four tables begin."""
_TF2_LINES = 13
"""From one of them to the next."""
_OTHER_MODEL = "the model isn't ResNet-50 or BERT"
_WHY_NOT = {
    "PaddlePaddle/Classification/RN50v1.5": "the host's cost can't be fitted without rows on a V100",
    "TensorFlow/Classification/ConvNets/resnet50v1.5": "the precision isn't known",
    "PyTorch/Classification/ConvNets/triton/resnet50": "the network is measured, over which Triton gets whole images",
    "TensorFlow/Classification/ConvNets/triton": "the network is measured, over which Triton gets whole images",
    "PyTorch/LanguageModeling/BERT/triton/dist4l": "they are distilled and not BERT itself",
    "PyTorch/LanguageModeling/BERT/triton/dist6l": "they are distilled and not BERT itself",
}
_NOTES = (
    "What to leave out, and how each software fuses, was settled with all rows in view; constants were fitted as said.",
    "TensorFlow 1 on a T4 takes 1.6 times as long as TensorFlow 2 for the same arithmetic in float32; both are in.",
    "TensorFlow 2's tables all say FP16; by their order they are large, then base, each in float16, then float32.",
)


@dataclass(frozen=True, slots=True)
class _Case:
    software: str
    gpu: str
    model: str
    dtype: Dtype
    batch: int
    seq: int | None
    measured_ms: float

    @property
    def held_out(self) -> bool:
        """V100s are fitted on; and PyTorch in float32 on the T4, for the clock that it holds."""
        for_clock = self.gpu == "t4" and self.software == "PyTorch"
        return not (self.gpu.startswith("v100") or for_clock)


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated beside measured."""
    lines = read_table(data, _FILE, _COLUMNS)
    left_out = LeftOutRows()
    cases = _cases(lines, left_out)
    if not cases:
        raise DataError(f"{_FILE} has no row of ResNet-50 or BERT that can be compared.", hint=HINT)
    kept = _in_one_mode(cases)
    rows = tuple(_row(case) for case in kept)
    other_mode = [case for case in cases if case not in kept]
    for case in other_mode:
        left_out.add("a larger batch takes several times as long, in another mode", f"{case.software} on {case.gpu}")
    every = (*rows, *map(_row, other_mode))
    return (
        Result(
            data_set="nvidia_tables",
            what="inference of ResNet-50 and BERT by PyTorch, MXNet, TensorFlow and Triton, batches of 1 to 512",
            source="NVIDIA/DeepLearningExamples, Apache-2.0 and BSD-3 per model; V100, A100, T4, A30",
            split=(
                "host costs of each software and Volta's efficiency fitted on V100s, the T4's clock on ResNet-50 in "
                "float32; all other rows of A100, T4 and A30 held out."
            ),
            quantity="time",
            unit="ms",
            rows=rows,
            measures=(
                absolute_error(rows, of="time", target=Target(high=25.0)),
                rank_correlation(rows, of="time", target=Target(low=0.97)),
                *([absolute_error(every, of="time, left-out rows of another mode included")] if other_mode else []),
            ),
            stands_for="solo",
            notes=_NOTES,
            left_out=left_out.sentences(),
        ),
    )


def _row(case: _Case) -> Row:
    software = _SOFTWARE[case.software]
    kernels = _kernels(case, software)
    gpu = find_gpu(case.gpu)
    costs = solo_costs(kernels, gpu)
    device = max(costs.total_ns * software.slower, request_ns(kernels, costs, host_us=software.launch_us))
    host = software.request_us * 1e3 + float(kernels.launches.sum()) * software.wait_us * 1e3
    tokens = "" if case.seq is None else f", {case.seq} tokens"
    return Row(
        case=f"{case.model}, {case.dtype}, batch {case.batch}{tokens}, {case.gpu}, {case.software}",
        measured=case.measured_ms,
        simulated=(device + host) / 1e6,
        baselines={"plain roofline": float(plain_roofline_ns(kernels, gpu).sum()) / 1e6},
        held_out=case.held_out,
    )


def _kernels(case: _Case, software: _Software) -> Kernels:
    """All of this software is from before fused attention was common."""
    spec = WorkloadSpec(name=case.model, batch=case.batch, seq=case.seq, dtype=case.dtype)
    operators = find(case.model).properties(spec).operators
    kernels = kernels_of(operators, fusion=software.fusion, tf32=software.tf32, attention="unfused")
    return kernels.take(np.flatnonzero(kernels.kind != TRANSFER))


def _cases(lines: Sequence[Mapping[str, str]], left_out: LeftOutRows) -> list[_Case]:
    places = _places(lines)
    cases: list[_Case] = []
    for line in lines:
        gpu = _GPUS.get(line["gpu"])
        known = _recognised(line, places)
        if known is None:
            left_out.add(_WHY_NOT.get(line["model"], _OTHER_MODEL), line["model"])
        elif gpu is None:
            left_out.add("the GPU isn't in the catalogue", line["gpu"])
        elif known[0] not in _SOFTWARE:
            left_out.add("the host's cost isn't known", known[0])
        else:
            software, model, dtype = known
            batch = count(line["batch"], _FILE, "batch")
            throughput = positive(line["throughput"], _FILE, "throughput")
            seq = None if model == "resnet50" else count(line["seq"] or str(_SEQ), _FILE, "seq")
            cases.append(_Case(software, gpu, model, dtype, batch, seq, batch / throughput * 1e3))
    return cases


def _places(lines: Sequence[Mapping[str, str]]) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """By model and GPU, the lines of the source at which tables begin, in order."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for line in lines:
        found[line["model"], line["gpu"]].add(_place(line))
    return {group: tuple(sorted(places)) for group, places in found.items()}


def _place(line: Mapping[str, str]) -> int:
    text = line["source_path"].rpartition(":")[2]
    return int(text) if text.isdecimal() else -1


def _recognised(
    line: Mapping[str, str], places: Mapping[tuple[str, str], tuple[int, ...]]
) -> tuple[str, str, Dtype] | None:
    """Software, model and precision of a line; None: it isn't one of those that are simulated."""
    half: Dtype = "float16"
    full: Dtype = "float32"
    match line["model"]:
        case "PyTorch/Classification/ConvNets/resnet50v1.5":
            mixed = line["precision"] != "FP32"
            return ("PyTorch AMP", "resnet50", half) if mixed else ("PyTorch", "resnet50", full)
        case "MxNet/Classification/RN50v1.5":
            return "MXNet", "resnet50", half
        case "TensorFlow2/LanguageModeling/BERT" as model:
            table = _tf2_table(line, places[model, line["gpu"]])
            return "TensorFlow 2", "bert-large" if table < 2 else "bert-base", half if table % 2 == 0 else full
        case "TensorFlow/LanguageModeling/BERT:base" | "TensorFlow/LanguageModeling/BERT:large" as model:
            return "TensorFlow 1", f"bert-{model.rpartition(':')[2]}", half if line["precision"] == "fp16" else full
        case "PyTorch/LanguageModeling/BERT/triton/large":
            accelerated = " with TensorRT" if "accelerator" in line["section"] else ""
            return f"Triton, {line['backend'].removeprefix('NVIDIA ')}{accelerated}", "bert-large", half
    return None


def _tf2_table(line: Mapping[str, str], places: tuple[int, ...]) -> int:
    """Which of its GPU's four tables a line is from, also where the others aren't at hand."""
    first = _TF2_TABLES.get(line["gpu"])
    tables = (_place(line) - first) / _TF2_LINES if first is not None else -1.0
    return round(tables) if 0 <= tables < 4 else places.index(_place(line))


def _in_one_mode(cases: Sequence[_Case]) -> list[_Case]:
    """Without the rows before a fall of throughput that no larger batch explains."""
    tables: dict[tuple[str, str, str, Dtype, int | None], list[_Case]] = defaultdict(list)
    for case in cases:
        tables[case.software, case.gpu, case.model, case.dtype, case.seq].append(case)
    kept: list[_Case] = []
    for table in tables.values():
        ordered = sorted(table, key=lambda case: case.batch)
        speeds = [case.batch / case.measured_ms for case in ordered]
        falls = [place + 1 for place in range(len(speeds) - 1) if speeds[place + 1] < _FALL * speeds[place]]
        kept.extend(ordered[max(falls, default=0) :])
    return kept
