"""ParvaGPU's networks by their kernels: slices told from times on the whole GPU and from the architecture."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.request import kernels_for
from cotenant.prediction.calibration.host import Calibration, calibrate
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.columns import TRANSFER, Kernels
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.fusion import kernels_of
from cotenant.prediction.kernels.traces import calibrated
from cotenant.prediction.sharing.trace import Trace, trace_of
from cotenant.workloads.models.entry import Architecture, ModelEntry
from cotenant.workloads.properties import remembered
from cotenant.workloads.protocol import Properties, WorkloadSpec

GPU = "a100-sxm4-80gb"
SLICE_SMS = 14
"""SMs of one of the seven slices."""
COPY_GB_S = 7.0
"""Images are copied from ordinary memory before each request; fitted on the four fitted models."""
USUAL_FACTOR = 1.37
"""Float32 networks of this software against the simulation: mean of the four fitted models."""
TOKENS = 128
"""Of BERT, which is the large one: the measuring script of the source says so."""

_IMAGE_BYTES = 3 * 224 * 224 * 4
_TEXT_BYTES = 3 * TOKENS * 8
_CATALOGUE = {
    "bert": "bert-large",
    "mobilenetv2": "mobilenet-v2",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "resnet152": "resnet152",
}
_CLASSIC: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "vgg11": ("vgg", (1, 1, 2, 2, 2)),
    "vgg13": ("vgg", (2, 2, 2, 2, 2)),
    "vgg16": ("vgg", (2, 2, 3, 3, 3)),
    "vgg19": ("vgg", (2, 2, 4, 4, 4)),
    "densenet121": ("densenet", (6, 12, 24, 16)),
    "densenet169": ("densenet", (6, 12, 32, 32)),
    "densenet201": ("densenet", (6, 12, 48, 32)),
    "inceptionv3": ("inception", ()),
}
_ARCHITECTURE = Architecture("validation.classic_networks", "NetworkConfig", {"classify": "Network"})


@dataclass(frozen=True, slots=True)
class Traced:
    """One network, calibrated on its times on the whole GPU."""

    model: str
    gpu: GpuSpec
    calibration: Calibration
    """In milliseconds."""

    def trace(self, batch: int, gpcs: int, dram_share: float) -> Trace:
        """A request on a slice, ready for the engine."""
        kernels = kernels_of_network(self.model, batch)
        costs = solo_costs(kernels, self.gpu, sms=SLICE_SMS * gpcs, bandwidth_share=dram_share, l2_share=dram_share)
        return trace_of(
            kernels,
            calibrated(costs, costs.total_ns * self.calibration.device),
            domain_sms=SLICE_SMS * gpcs,
            bytes_per_ns=self.gpu.bandwidth_gb_s * dram_share,
            host_us=self.calibration.launches * 1e3 / float(kernels.launches.sum()),
            before_us=self.calibration.item * batch * 1e3,
        )


def traced(model: str, whole_ms: Mapping[int, float], gpcs: int) -> Traced:
    """The network of this name.

    Args:
        model: As the data call it.
        whole_ms: Time per request on the whole GPU, by batch.
        gpcs: Slices of the whole GPU.
    """
    gpu = find_gpu(GPU)
    simulated = [
        solo_costs(kernels_of_network(model, batch), gpu, sms=SLICE_SMS * gpcs).total_ns / 1e6 for batch in whole_ms
    ]
    copied = _TEXT_BYTES if model == "bert" else _IMAGE_BYTES
    return Traced(
        model,
        gpu,
        calibrate(
            list(whole_ms),
            list(whole_ms.values()),
            simulated,
            item_least=copied / COPY_GB_S / 1e6,
            device_guess=USUAL_FACTOR,
        ),
    )


@lru_cache(maxsize=128)
def kernels_of_network(model: str, batch: int) -> Kernels:
    """The kernels of one request without its copies; products may be rounded for tensor cores, as was usual then."""
    if model in _CATALOGUE:
        seq = TOKENS if model == "bert" else None
        spec = WorkloadSpec(name=_CATALOGUE[model], batch=batch, seq=seq, dtype="float32")
        kernels = kernels_for(spec, tf32="all", attention="unfused")
    else:
        kernels = kernels_of(described(model, batch).operators, tf32="all")
    return kernels.take(np.flatnonzero(kernels.kind != TRANSFER))


def described(model: str, batch: int) -> Properties:
    """A network that the catalogue doesn't offer."""
    family, blocks = _CLASSIC[model]
    entry = ModelEntry(
        name=model,
        family="vision",
        about="",
        architecture=_ARCHITECTURE,
        config={"family": family, "blocks": blocks},
        image=224,
    )
    spec = WorkloadSpec(name=model, batch=batch, dtype="float32")

    def describe() -> Properties:
        from cotenant.workloads.models.describing import describe

        return describe(entry, spec)

    return remembered(spec, {**entry.config, "described_image": entry.image}, describe)


def can_be_traced(models: Iterable[str]) -> frozenset[str]:
    """Those of the models whose architecture is known."""
    return frozenset(model for model in models if model in _CATALOGUE or model in _CLASSIC)
