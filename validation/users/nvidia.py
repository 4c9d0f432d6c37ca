"""NVIDIA's published inference of ResNet-50, EfficientNet-B0 and BERT: software, GPU, precision and batch by row."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.workloads.protocol import Dtype, Software
from validation.reading import count, positive, read_table

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
_VISION = ("resnet50", "efficientnet-b0")
_SEQ = 384
"""Tokens of tables that don't state them (SQuAD)."""
_FALL = 0.75
"""If a table's throughput falls below this fraction with a larger batch, earlier rows were made in another mode."""

_TF2_TABLES = {"V100-16GB": 830, "V100-32GB": 888, "A100-80GB": 947, "T4": 1005}
"""First lines of each GPU's four tables on TensorFlow 2's page."""
_TF2_LINES = 13
"""Lines from each of them to the next."""

_SOFTWARE: Mapping[str, Software] = {
    "PyTorch": "eager",
    "PyTorch AMP": "eager",
    "MXNet": "graphs",
    "TensorFlow 1": "onnxruntime",
    "TensorFlow 2": "onnxruntime",
    "Triton, ONNX Runtime": "onnxruntime",
    "Triton, ONNX Runtime with TensorRT": "tensorrt",
    "Triton, PyTorch": "onnxruntime",
    "Triton, TensorRT": "tensorrt",
}
"""The closest `software` of a study. TensorFlow, MXNet and TorchScript (PyTorch in Triton) have none of their own: they
launch graphs without Python, with attention as products around a softmax."""
OWN_WORDS = {
    "MXNet": "mxnet",
    "TensorFlow 1": "tensorflow",
    "TensorFlow 2": "tensorflow",
    "Triton, PyTorch": "torchscript",
}
"""Their names in the table of classes; no class of a study is judged by them."""
_ROUNDED = ("TensorFlow 1", "TensorFlow 2")
"""They round float32 products to TF32 on Ampere, which a study can't express: those rows are left out."""


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the tables."""

    source: str
    software: Software
    gpu: str
    model: str
    dtype: Dtype
    batch: int
    seq: int | None
    measured_ms: float
    tf32: bool = False


def cases(data: Path) -> list[Case]:
    """Every line that can be simulated."""
    lines = read_table(data, _FILE, _COLUMNS)
    places = _places(lines)
    found: list[Case] = []
    for line in lines:
        gpu = _GPUS.get(line["gpu"])
        known = _recognised(line, places)
        if known is None or gpu is None or known[0] not in _SOFTWARE:
            continue
        source, model, dtype = known
        if source in _ROUNDED and dtype == "float32" and gpu.startswith(("a100", "a30")):
            continue
        batch = count(line["batch"], _FILE, "batch")
        seq = None if model in _VISION else count(line["seq"] or str(_SEQ), _FILE, "seq")
        time = batch / positive(line["throughput"], _FILE, "throughput") * 1e3
        tf32 = line["precision"] == "TF32" and model == "efficientnet-b0"
        found.append(Case(source, _SOFTWARE[source], gpu, model, dtype, batch, seq, time, tf32))
    return _in_one_mode(found)


def _places(lines: Sequence[Mapping[str, str]]) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """By model and GPU, the first lines of tables in the source, in order."""
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
    """Software, model and precision of a line; None if it can't be simulated."""
    half: Dtype = "float16"
    full: Dtype = "float32"
    match line["model"]:
        case (
            "PyTorch/Classification/ConvNets/resnet50v1.5"
            | "PyTorch/Classification/ConvNets/efficientnet:efficientnet-b0"
        ) as model:
            name = "resnet50" if "resnet50" in model else "efficientnet-b0"
            return ("PyTorch", name, full) if line["precision"] in ("FP32", "TF32") else ("PyTorch AMP", name, half)
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
    """Which of its GPU's four tables a line belongs to, even if the others are missing."""
    first = _TF2_TABLES.get(line["gpu"])
    tables = (_place(line) - first) / _TF2_LINES if first is not None else -1.0
    return round(tables) if 0 <= tables < 4 else places.index(_place(line))


def _in_one_mode(cases: Sequence[Case]) -> list[Case]:
    """Without the rows before a drop in throughput that a larger batch can't explain."""
    tables: dict[tuple[str, str, str, Dtype, int | None], list[Case]] = defaultdict(list)
    for case in cases:
        tables[case.source, case.gpu, case.model, case.dtype, case.seq].append(case)
    kept: list[Case] = []
    for table in tables.values():
        ordered = sorted(table, key=lambda case: case.batch)
        speeds = [case.batch / case.measured_ms for case in ordered]
        falls = [step + 1 for step in range(len(speeds) - 1) if speeds[step + 1] < _FALL * speeds[step]]
        kept.extend(ordered[max(falls, default=0) :])
    return kept
