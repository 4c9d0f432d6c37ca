"""Kernels of small batches: V100, device time without the host."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.simulated_gpu import kernels_for
from cotenant.prediction.kernels.columns import KINDS, TRANSFER, Floats, Kernels
from cotenant.prediction.kernels.cost import Costs, plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.efficiency import FITTED
from cotenant.prediction.kernels.software import Execution
from cotenant.workloads.protocol import WorkloadSpec
from validation.measures import absolute_error, figure
from validation.reading import LeftOutRows, files, number, positive, read_table
from validation.result import Result, Row

_FOLDER = "sharing/v100_kernels_orion"
_SMS = 80
_PACKED = [KINDS.index(kind) for kind in ("elementwise", "activation", "reduction", "copy", "depthwise")]
"""Kernels of small thread blocks, several of which share an SM."""
_SOURCE = "eth-easl/orion, MIT; V100"
_SPLIT = "that convolutions aren't split was decided with the convolutional models in view; only BERT is held out."
_NOTES = (
    "BERT's profile doesn't say how many tokens; 384 is assumed, and large by its 24 layers.",
    "EfficientNet isn't B0, and nothing says which it is; RetinaNet and Transformer aren't in the catalogue.",
    "A profile's SMs are those that a kernel's thread blocks need where as many as possible share one.",
)


@dataclass(frozen=True, slots=True)
class _Profile:
    file: str
    spec: WorkloadSpec
    held_out: bool = True


_PROFILES = (
    _Profile("resnet50_4_fwd_new", WorkloadSpec(name="resnet50", batch=4, dtype="float32"), held_out=False),
    _Profile("resnet101_4_fwd_new", WorkloadSpec(name="resnet101", batch=4, dtype="float32"), held_out=False),
    _Profile(
        "mobilenetv2_4_fwd_new", WorkloadSpec(name="torchvision:mobilenet_v2", batch=4, dtype="float32"), held_out=False
    ),
    _Profile("bert_2_fwd_new", WorkloadSpec(name="bert-large", batch=2, seq=384, dtype="float32")),
)


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated against measured: total kernel time, and the fraction of it with free SMs."""
    times: list[Row] = []
    free: list[Row] = []
    left_out = LeftOutRows()
    for profile in _present(data, left_out):
        measured_ns, measured_sms = _measured(data, profile)
        kernels, costs = _simulated(profile)
        case = f"{profile.spec.name}, float32, batch {profile.spec.batch}, V100"
        roofline = float(plain_roofline_ns(kernels, find_gpu("v100-sxm2-16gb")).sum()) / 1e6
        times.append(
            Row(
                case,
                float(measured_ns.sum()) / 1e6,
                costs.total_ns / 1e6,
                {"plain roofline": roofline},
                held_out=profile.held_out,
            )
        )
        free.append(
            Row(
                case,
                float(measured_ns[measured_sms < _SMS].sum() / measured_ns.sum()),
                float(costs.duration_ns[_needed_sms(kernels, costs) < _SMS].sum() / costs.total_ns),
                {"every kernel fills the GPU": 0.0},
                held_out=profile.held_out,
            )
        )
    gap = figure(
        free,
        lambda measured, predicted: float(np.abs(predicted - measured).mean() * 100.0),
        name="mean abs. difference of the share of time",
        unit="%",
    )
    return (
        Result(
            data_set="orion",
            what="device time of all kernels of a request at small batches",
            source=_SOURCE,
            split=_SPLIT,
            quantity="time",
            unit="ms",
            rows=tuple(times),
            measures=(absolute_error(times, of="time"),),
            notes=_NOTES,
            left_out=left_out.sentences(),
        ),
        Result(
            data_set="orion",
            what="share of the device time in which a kernel can't fill all SMs",
            source=_SOURCE,
            split=_SPLIT,
            quantity="share of time",
            unit="",
            rows=tuple(free),
            measures=(gap,),
        ),
    )


def _present(data: Path, left_out: LeftOutRows) -> list[_Profile]:
    """The available profiles; others in the folder are reported."""
    known = {f"{_FOLDER}/{profile.file}": profile for profile in _PROFILES}
    names = files(data, f"{_FOLDER}/*")
    for other in sorted(set(names) - set(known)):
        left_out.add("nothing says which workload they are of", Path(other).name, _lines(data / other))
    return [known[file] for file in names if file in known]


def _lines(path: Path) -> int:
    with path.open("rb") as stream:
        return max(0, sum(1 for _ in stream) - 1)


def _measured(data: Path, profile: _Profile) -> tuple[Floats, Floats]:
    file = f"{_FOLDER}/{profile.file}"
    lines = read_table(data, file, ("SM_usage", "Duration"))
    durations = [positive(line["Duration"], file, "Duration") for line in lines]
    return np.array(durations), np.array([number(line["SM_usage"], file, "SM_usage") for line in lines])


def _simulated(profile: _Profile) -> tuple[Kernels, Costs]:
    """The profiled software predates fused attention."""
    kernels = kernels_for(profile.spec, Execution("eager", attention="unfused"))
    kernels = kernels.take(np.flatnonzero(kernels.kind != TRANSFER))
    return kernels, solo_costs(kernels, find_gpu("v100-sxm2-16gb"))


def _needed_sms(kernels: Kernels, costs: Costs) -> Floats:
    """SMs that each kernel needs if its thread blocks are packed, as the profiles count them.

    Costs have the SMs it is spread over: a pointwise kernel of 80 blocks uses 80 SMs, but fits on 10.
    """
    spread = np.isin(kernels.kind, _PACKED)
    return np.where(spread, kernels.blocks / FITTED.small_blocks, costs.sms)
