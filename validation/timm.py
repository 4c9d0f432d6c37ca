"""Inference of vision models in mixed precision at large batches."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.errors import DataError
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.columns import TRANSFER, Kernels
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.fusion import kernels_of
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.vision import VISION
from cotenant.workloads.properties import remembered
from cotenant.workloads.protocol import Operator, Properties, WorkloadSpec
from validation.leaving_out import LeftOutRows
from validation.measures import absolute_error, rank_correlation
from validation.reading import HINT, count, files, positive, read_table
from validation.result import Result, Row, Target

_FILES = "solo/vision_*_timm.csv"
_GPUS = {"rtx3090": "rtx-3090", "rtx4090": "rtx-4090", "a100": "a100-sxm4-40gb", "v100": "v100-sxm2-16gb"}
"""How file names call GPUs, where not as the catalogue does."""
_COLUMNS = ("model", "infer_img_size", "infer_step_time", "infer_batch_size", "param_count")
_FITTED = frozenset({"resnet50", "vit_base_patch16_224", "vit_base_patch16_384", "mobilenetv2_100", "efficientnet_b0"})
_NAMES = re.compile(
    r"(?P<resnet>resnet(?:18|34|50|101|152))"
    r"|vit_(?P<vit>tiny|small|base|large|huge)_patch(?P<patch>8|14|16|32)_(?:224|384)"
    r"|mobilenetv2_(?P<mobilenet>050|075|100|140)"
    r"|efficientnet_b(?P<efficientnet>[0-7])"
    r"|efficientnetv2_(?P<v2>s|m|l)"
)
_VIT = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
"""Width, layers, heads."""
_EFFICIENTNET = (
    (1.0, 1.0, 1280),
    (1.0, 1.1, 1280),
    (1.1, 1.2, 1408),
    (1.2, 1.4, 1536),
    (1.4, 1.8, 1792),
    (1.6, 2.2, 2048),
    (1.8, 2.6, 2304),
    (2.0, 3.1, 2560),
)
"""Width, depth and last layer of B0 to B7."""
_V2_MEDIUM = (
    (True, 1, 1, 24, 3),
    (True, 4, 2, 48, 5),
    (True, 4, 2, 80, 5),
    (False, 4, 2, 160, 7),
    (False, 6, 1, 176, 14),
    (False, 6, 2, 304, 18),
    (False, 6, 1, 512, 5),
)
_SAME_MODEL = 0.02
"""The data name the number of parameters (in millions): within this, the model that was described is the same."""


@dataclass(frozen=True, slots=True)
class _Case:
    model: str
    image: int
    batch: int
    step_ms: float
    params: float
    """Millions."""


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated beside measured."""
    rows: list[Row] = []
    left_out = LeftOutRows()
    for file in files(data, _FILES):
        called = Path(file).name.removeprefix("vision_").removesuffix("_timm.csv")
        name = _GPUS.get(called, called)
        if name in gpu_names():
            rows += _rows(_cases(data, file, left_out), find_gpu(name), left_out)
        else:
            left_out.add("it wasn't measured on a GPU of the catalogue", called, len(read_table(data, file, _COLUMNS)))
    if not rows:
        raise DataError(f"{_FILES} have no row of a ResNet, ViT, MobileNetV2 or EfficientNet.", hint=HINT)
    return (
        Result(
            data_set="timm",
            what="inference of ResNets, ViTs, MobileNetV2 and EfficientNets, mixed precision, large batches",
            source="huggingface/pytorch-image-models, Apache-2.0; RTX 3090",
            split="fitted on ResNet-50, ViT-B/16, MobileNetV2 1.0 and EfficientNet-B0; all other models held out.",
            quantity="time",
            unit="ms",
            rows=tuple(rows),
            measures=(
                absolute_error(rows, of="time", target=Target(high=25.0)),
                rank_correlation(rows, of="time", target=Target(low=0.97)),
            ),
            notes=("The model's form (autocast, feeding of tensor cores) was settled with all rows in view.",),
            left_out=left_out.sentences(),
        ),
    )


def _rows(cases: Sequence[_Case], gpu: GpuSpec, left_out: LeftOutRows) -> list[Row]:
    """Models are described by their own definitions, and taken only where their parameters agree."""
    rows = []
    for case in cases:
        entry = entry_of(case.model, case.image)
        properties = _described(entry, case.batch) if entry is not None else None
        if properties is None or abs((properties.params or 0) / 1e6 / case.params - 1) > _SAME_MODEL:
            left_out.add(f"parameters differ by more than {_SAME_MODEL:.0%} from those of that name", case.model)
            continue
        kernels = _in_mixed_precision(properties.operators)
        rows.append(
            Row(
                case=f"{case.model}, {case.image} pixels, batch {case.batch}, {gpu.name}",
                measured=case.step_ms,
                simulated=solo_costs(kernels, gpu).total_ns / 1e6,
                baselines={"plain roofline": float(plain_roofline_ns(kernels, gpu).sum()) / 1e6},
                held_out=_base(case.model) not in _FITTED or gpu.name != "rtx-3090",
            )
        )
    return rows


def _base(model: str) -> str:
    """A name without the weights that newer tables add to it: `resnet50.a1_in1k`."""
    return model.partition(".")[0]


def entry_of(model: str, image: int) -> ModelEntry | None:
    """The described model that is this one of timm at this image size; None: there is none."""
    match = _NAMES.fullmatch(_base(model))
    if match is None:
        return None
    known = {entry.name: entry for entry in VISION}
    base, changes = _variant(match, image)
    entry = known[base]
    return replace(entry, image=image, config={**entry.config, **changes})


def _variant(match: re.Match[str], image: int) -> tuple[str, dict[str, Any]]:
    """The catalogue's model that it is a variant of, and what is different."""
    if match["vit"]:
        width, layers, heads = _VIT[match["vit"]]
        return "vit-b-16", {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
            "patch_size": int(match["patch"]),
            "image_size": image,
        }
    if match["mobilenet"]:
        return "mobilenet-v2", {"depth_multiplier": int(match["mobilenet"]) / 100, "image_size": image}
    if match["efficientnet"]:
        wide, deep, last = _EFFICIENTNET[int(match["efficientnet"])]
        sizes = {"width_coefficient": wide, "depth_coefficient": deep, "hidden_dim": last, "image_size": image}
        return "efficientnet-b0", sizes
    if match["v2"] == "m":
        return "efficientnet-v2-s", {"parts": _V2_MEDIUM}
    return match["resnet"] or f"efficientnet-v2-{match['v2']}", {}


def _cases(data: Path, file: str, left_out: LeftOutRows) -> list[_Case]:
    cases = []
    for line in read_table(data, file, _COLUMNS):
        if _NAMES.fullmatch(_base(line["model"])) is None:
            left_out.add("the model isn't one of the four families, or a variant with other layers", line["model"])
            continue
        cases.append(
            _Case(
                model=line["model"],
                image=count(line["infer_img_size"], file, "infer_img_size"),
                batch=count(line["infer_batch_size"], file, "infer_batch_size"),
                step_ms=positive(line["infer_step_time"], file, "infer_step_time"),
                params=positive(line["param_count"], file, "param_count"),
            )
        )
    return cases


def _described(entry: ModelEntry, batch: int) -> Properties:
    spec = WorkloadSpec(name=entry.name, batch=batch, dtype="float16")

    def describe() -> Properties:
        from cotenant.workloads.models.describing import describe

        return describe(entry, spec)

    return remembered(spec, {**entry.config, "described_image": entry.image}, describe)


def _in_mixed_precision(operators: tuple[Operator, ...]) -> Kernels:
    """What torch's autocast makes of a float16 trace: layer norms, and sums with their float32 parameters, stay wide.

    Padding is left out too: these definitions pad in an operator of its own, timm's in the convolution.
    """
    transformer = any(operator.name == "native_layer_norm" for operator in operators)
    out: list[Operator] = []
    for operator in operators:
        if operator.name == "constant_pad_nd":
            continue
        if operator.name == "native_layer_norm":
            wide = operator.bytes_written * 2
            out.append(replace(operator, bytes_read=operator.bytes_read * 2, bytes_written=wide))
            shapes = operator.out_shapes[:1]
            out.append(Operator("autocast", "float16", shapes, shapes, 0.0, wide, operator.bytes_written))
        elif operator.name == "add" and transformer:
            out.append(
                replace(operator, bytes_read=operator.bytes_read * 1.5, bytes_written=operator.bytes_written * 2)
            )
        else:
            out.append(operator)
    kernels = kernels_of(out)
    return kernels.take(np.flatnonzero(kernels.kind != TRANSFER))
