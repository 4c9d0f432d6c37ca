"""Largest batches of twelve vision models on a card of 24 GB, as powers of two."""

from pathlib import Path

from cotenant.devices import find_device
from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.batch_limit import FRAGMENTATION, BatchLimit, growth_of, predict
from cotenant.workloads import find
from cotenant.workloads.models.vision import VISION
from cotenant.workloads.protocol import WorkloadSpec
from validation.measures import figure
from validation.result import Result, Row, Target

_IMAGE = 224
_PHYSICAL = {
    "resnet18": 2048,
    "resnet34": 2048,
    "resnet50": 1024,
    "resnet101": 1024,
    "resnet152": 1024,
    "mobilenet-v2": 1024,
    "efficientnet-v2-s": 2048,
    "efficientnet-v2-l": 2048,
    "vit-b-16": 2048,
    "vit-l-16": 2048,
    "vit-b-32": 8192,
    "vit-l-32": 4096,
}
"""The published table, corrected for sizes its search never tried."""

_CHOSEN_BY = ("resnet50", "resnet101", "resnet152")
"""They need the same memory per item, so that one decides for all."""
_INFERRED = (
    "Five of the twelve values are inferred: the published search skipped sizes (a list was changed while it was gone "
    "through), and its table comes out when that search is run on these values."
)


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated against measured; the table is short and public, so nothing is read from ``data``."""
    del data
    gpu = find_gpu("rtx-a5000")
    rows = tuple(
        Row(
            case=f"{model}, float32, {_IMAGE} pixels, 24 GB",
            measured=float(batch),
            simulated=float(_largest(model).power_of_two),
            baselines={"weights alone, 10 MB per item": _guess(model, gpu.memory_bytes)},
            held_out=model not in _CHOSEN_BY,
        )
        for model, batch in _PHYSICAL.items()
    )
    exact = figure(
        rows,
        lambda measured, predicted: float((measured == predicted).mean() * 100.0),
        name="largest batches that are exactly right",
        unit="%",
        target=Target(low=100.0),
    )
    return (
        Result(
            data_set="max_batch",
            what="largest batch, as a power of two, of 12 vision models on a card of 24 GB",
            source="hpides/alsatian, RTX A5000 24GB: the published table, corrected for sizes that were never tried",
            split=(
                f"the allocator's loss ({FRAGMENTATION:.0%}) was chosen so that ResNet-50 to 152 don't fit at 2048; "
                "all else follows from the models."
            ),
            quantity="batch",
            unit="items",
            rows=rows,
            measures=(exact,),
            notes=(_INFERRED,),
        ),
    )


def _largest(model: str) -> BatchLimit:
    spec = WorkloadSpec(name=model, dtype="float32", params={"image": _IMAGE})
    return predict(growth_of(spec, find(model).properties), find_device("sim:rtx-a5000").room())


def _guess(model: str, memory_bytes: int) -> float:
    params = next(entry.params or 0 for entry in VISION if entry.name == model)
    items = max(1.0, (memory_bytes - 4 * params) / 10e6)
    return float(2 ** (int(items).bit_length() - 1))
