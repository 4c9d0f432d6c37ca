"""Measured times of requests alone, and the host and device times they imply.

A measured time covers the host's launches and the device's kernels together; two batches or a utilisation separate
them. What they can't determine stays as simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from cotenant.errors import DeviceError
from cotenant.prediction.contention.trace import Pace
from cotenant.prediction.kernels.columns import Floats
from cotenant.workloads.protocol import Dtype, Software, WorkloadSpec, in_steps

if TYPE_CHECKING:
    from cotenant.prediction.interference.gathered import SoloTenant
    from cotenant.prediction.simulated_gpu import Controls, SimulatedGpu


# A measured time of a request alone, which calibrates a simulated GPU

PROBED: tuple[str, ...] = ("in_flight", "ttft_ms", "tpot_ms")
"""What only a probe of an engine has."""
PROBED_TOO: tuple[str, ...] = ("ttft_p95_ms", "tpot_p95_ms", "ttft_spread", "tpot_spread", "sequences", "cache_tokens")
"""What it may have besides."""


class SoloTime(BaseModel):
    """A measured time of a request alone on the whole device; None in a field matches any value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    workload: str
    ms: float = Field(gt=0)
    batch: int | None = Field(default=None, ge=1)
    seq: int | None = Field(default=None, ge=1)
    dtype: Dtype | None = None
    mode: str | None = None
    software: Software | None = None
    train: bool = False
    utilisation: float | None = Field(default=None, gt=0, le=1)
    """Share of that time in which the device had work, as nvidia-smi or DCGM report it: tells host from device."""
    tokens: int | None = Field(default=None, ge=2)
    """Of an engine's probe: tokens of an answer."""
    tokens_spread: float = Field(default=0.0, ge=0, lt=1)
    """Answers are shorter and longer by up to this share."""
    in_flight: int | None = Field(default=None, ge=1)
    ttft_ms: float | None = Field(default=None, gt=0)
    """Without it and `tpot_ms`, clients saw tokens come together, and only the whole request's time counts."""
    tpot_ms: float | None = Field(default=None, gt=0)
    ttft_p95_ms: float | None = Field(default=None, gt=0)
    tpot_p95_ms: float | None = Field(default=None, gt=0)
    ttft_spread: float = Field(default=0.0, ge=0)
    """Standard deviation of the time from one pass over all loads to the next, relative."""
    tpot_spread: float = Field(default=0.0, ge=0)
    sequences: int | None = Field(default=None, ge=1)
    """Most that the server executes together, as it says."""
    cache_tokens: int | None = Field(default=None, ge=1)
    """Tokens that the server's cache holds, as it says."""
    row: str = ""
    """Where it is written, for messages."""

    @model_validator(mode="after")
    def _whole(self) -> "SoloTime":
        given = {name for name in ("seq", "tokens", *PROBED) if getattr(self, name) is not None}
        complete = {"seq", "tokens", PROBED[0]} <= given and len(given & set(PROBED)) != 2
        if given & set(PROBED) and not complete:
            raise ValueError(f"a probe of an engine has seq, tokens, {', '.join(PROBED)}")
        return self

    @property
    def probe(self) -> bool:
        """Whether it is what clients of an engine saw, with several requests in flight."""
        return self.in_flight is not None

    def of_kind(self, spec: WorkloadSpec) -> bool:
        """True if it applies to this workload, at this batch or another."""
        if self.probe:
            return self.workload == spec.name and in_steps(spec) and self.software == spec.software
        return (
            self.workload == spec.name
            and self.train == spec.train
            and self.mode in (None, spec.mode)
            and (self.software or "eager") == (spec.software or "eager")
            and self.dtype in (None, spec.dtype)
            and (self.batch is not None or self.seq in (None, spec.seq))
        )

    def exactly(self, spec: WorkloadSpec) -> bool:
        """True if it was measured at exactly this batch and length."""
        return (
            not self.probe and self.of_kind(spec) and self.batch in (None, spec.batch) and self.seq in (None, spec.seq)
        )

    def spec(self, like: WorkloadSpec) -> WorkloadSpec:
        """The measurement's conditions."""
        return like.model_copy(update={"batch": self.batch or like.batch, "seq": self.seq or like.seq})


HOST_SPREAD, DEVICE_SPREAD, DEVICE_USUAL = 0.5, 0.25, 0.15
"""Prior standard deviations of the logarithms of both factors, and the prior mean of the device's: networks in float32
took that much longer than simulated (ParvaGPU: ResNet-50, VGG-16, DenseNet-121, MobileNetV2)."""
_FASTER_SPREAD = 0.13
"""Hardly any software is faster than the simulated, the best library."""
_TELL_APART, _TELL_ITEMS = 2, 3
"""Batches needed to separate host from device, and the host's work per item from its launches, unless a utilisation
does; below, host and device are scaled alike."""
_UTILISATION_SPREAD = 0.05
"""Of the logarithm of a utilisation, as sampled by NVML or DCGM."""
_ROBUST = 0.05
"""Larger relative errors are down-weighted: measured tables contain slips."""
_ITEM_SPREAD = 0.1
"""Prior spread of the host's own work per item, relative to the shortest time per item. Most software has none, some
reads or prepares each item for longer than the device computes: a prior with heavy tails."""


_NO_ITEMS = 1e-9


@dataclass(frozen=True, slots=True)
class SoloFit:
    """Factors between a workload's times on a machine and its simulated times."""

    host: float = 1.0
    """Factor of its launches and of the host work before and after them."""
    device: float = 1.0
    """Factor of its kernels."""
    item_ns: float = 0.0
    """Host time per item before the first launch: reading, preparing, copying."""
    off: float = 0.0
    """Mean relative error of the fitted times."""
    cost: float = 0.0
    """Negative log-likelihood of the measured times; smaller is better."""


UNFITTED = SoloFit()


@dataclass(frozen=True, slots=True)
class SoloPoint:
    """A measured time and its simulation."""

    batch: int
    measured_ns: float
    pace: Pace
    """Its launches and kernels, as simulated."""
    around_ns: float
    """Host time before the first launch and after the last kernel."""
    utilisation: float | None = None
    """Share of the measured time in which the device had work, if known."""

    def explained_ns(self, host: float, device: float, item_ns: float) -> float:
        """Its time with these factors: at every kernel, the later of host and device counts."""
        overlapped = float(self.pace.time_ns(host, device))
        return host * self.around_ns + overlapped + item_ns * self.batch


def fit_solos(times: Sequence[SoloPoint]) -> SoloFit:
    """The factors that best explain the measured times."""
    from scipy.optimize import least_squares

    batches, told = len({point.batch for point in times}), any(point.utilisation is not None for point in times)
    if batches < _TELL_APART and not told:
        scale = float(
            np.exp(np.mean([np.log(point.measured_ns / point.explained_ns(1.0, 1.0, 0.0)) for point in times]))
        )
        return SoloFit(scale, scale)
    per_item = min(point.measured_ns / point.batch for point in times)

    def residuals(values: Floats) -> Floats:
        host, device, item = np.exp(values[0]), np.exp(values[1]), values[2] * per_item
        off = [np.log(point.explained_ns(host, device, item) / point.measured_ns) / _ROBUST for point in times]
        robust = np.sqrt(2 * (np.sqrt(1 + np.square(off)) - 1))
        spread = DEVICE_SPREAD if values[1] > DEVICE_USUAL else _FASTER_SPREAD
        prior = (values[0] / HOST_SPREAD, (values[1] - DEVICE_USUAL) / spread, _heavy_tailed(values[2] / _ITEM_SPREAD))
        used = [
            np.log(device * point.pace.device_ns / (point.utilisation * point.measured_ns)) / _UTILISATION_SPREAD
            for point in times
            if point.utilisation is not None
        ]
        return np.concatenate([robust, prior, used])

    most = 1.0 if told or batches >= _TELL_ITEMS else _NO_ITEMS
    starts = [(host, device, most / 20) for host in (-0.3, 0.3) for device in (-0.2, 0.3)]
    fits = [least_squares(residuals, start, bounds=([-3, -3, 0], [3, 3, most])) for start in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    at = best.x
    host, device = float(np.exp(at[0])), float(np.exp(at[1]))
    item = float(at[2]) * per_item
    off = float(np.mean([abs(point.explained_ns(host, device, item) / point.measured_ns - 1) for point in times]))
    return SoloFit(host, device, item, off, float(best.cost))


def _heavy_tailed(spreads: float) -> float:
    """A residual whose square grows with the logarithm of the distance, as under a Student t distribution."""
    return float(np.sqrt(2 * np.log1p(spreads**2 / 2)))


def matched(fit: SoloFit, time: SoloPoint) -> SoloFit:
    """The same fit, scaled to reproduce this time exactly."""
    scale = time.measured_ns / time.explained_ns(fit.host, fit.device, fit.item_ns)
    return replace(fit, host=fit.host * scale, device=fit.device * scale, item_ns=fit.item_ns * scale)


# --- The simulated twin of a real GPU, calibrated by solo times measured there


def calibrating(
    gpu: "SimulatedGpu", specs: "Sequence[WorkloadSpec]", solos: "Sequence[SoloTenant | None]"
) -> "tuple[Controls, tuple[str, ...]]":
    """Settings of the twin with the measured times, and one sentence for each time that can't be used.

    Args:
        gpu: The twin.
        specs: Tenants.
        solos: What was measured of each; None: nothing.
    """
    from cotenant.prediction.simulated_gpu import Controls

    times, notes = [], []
    for spec, solo in zip(specs, solos, strict=True):
        if solo is None:
            continue
        time = _time(gpu, spec, solo)
        try:
            gpu.calibrated(gpu.request(spec), Controls(solo_ms=(time,)))
        except DeviceError as refusal:
            notes.append(f"{refusal.message}: its prior is not calibrated.")
        else:
            times.append(time)
    return Controls(solo_ms=tuple(times)), tuple(notes)


def _time(gpu: "SimulatedGpu", spec: "WorkloadSpec", solo: "SoloTenant") -> "SoloTime":
    full = gpu.request(spec).spec
    return SoloTime(
        workload=full.name,
        ms=solo.service_ns / 1e6,
        batch=full.batch,
        seq=full.seq,
        dtype=full.dtype,
        mode=full.mode,
        software=full.software,
        train=full.train,
        row="the measured solo",
    )
