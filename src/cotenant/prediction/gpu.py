"""Specification of a GPU: figures from data sheets, with estimates marked as such."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

DTYPES = ("float64", "float32", "float16", "bfloat16", "int8")
"""Number formats in the order of their codes in kernels."""

Floats = NDArray[np.float64]
Architecture = Literal["kepler", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna3"]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Clocks(_Data):
    """Frequencies, MHz."""

    min: float = Field(gt=0)
    base: float = Field(gt=0)
    boost: float = Field(gt=0)
    memory: float = Field(gt=0)
    sustained: float | None = Field(default=None, gt=0)
    """Sustained clock under heavy load at the power limit, if well below boost."""
    step: float = Field(default=15, gt=0)
    """Step in which clocks can be locked."""

    @property
    def under_load(self) -> float:
        """Expected clock under load."""
        return self.sustained or self.boost

    def on_share(self, share: float) -> float:
        """Expected clock if only this share of the SMs may work.

        Switching power is proportional to clock x voltage squared, and the voltage to the clock: at the same power, the
        clock grows with the cube root of the inverse share.
        """
        return min(self.boost, self.under_load / float(np.cbrt(share)))

    def locked(self, mhz: float, share: float) -> float:
        """Expected clock if it is locked and only this share of the SMs may work: power limits it as before.

        Costs are fitted at the expected clock, also of light loads, which run at the boost clock: a lock slows these
        down by boost / lock, as simulated runs do from their activity.
        """
        return self.on_share(share) * min(1.0, mhz / self.boost)

    @model_validator(mode="after")
    def _ordered(self) -> "Clocks":
        if not self.min <= self.base <= self.boost:
            raise ValueError("clocks must satisfy min <= base <= boost")
        return self


class Rates(_Data):
    """Peak dense arithmetic at the boost clock, 10^12 operations per second (an FMA is two). None if unsupported."""

    float64: float | None = Field(default=None, gt=0)
    float32: float | None = Field(default=None, gt=0)
    tf32: float | None = Field(default=None, gt=0)
    """Tensor cores only: rounded float32 inputs."""
    float16: float | None = Field(default=None, gt=0)
    bfloat16: float | None = Field(default=None, gt=0)
    int8: float | None = Field(default=None, gt=0)


class Power(_Data):
    """Watts, and the clock at which the voltage starts to rise."""

    limit_w: float = Field(gt=0)
    """Default power limit of the board."""
    min_limit_w: float = Field(gt=0)
    """The lowest power limit that can be set."""
    idle_w: float = Field(gt=0)
    awake_w: float = Field(default=0.0, ge=0)
    """Added by a context besides clocked SMs: GDDR memory leaves its low clock."""
    knee_mhz: float = Field(gt=0)
    """The voltage is flat below this clock and rises above it."""

    @model_validator(mode="after")
    def _ordered(self) -> "Power":
        if not self.idle_w < self.min_limit_w <= self.limit_w:
            raise ValueError("power must satisfy idle_w < min_limit_w <= limit_w")
        return self


class Thermal(_Data):
    """Two thermal poles above the air, the die and its heat sink; and the effect of heat on leakage."""

    fast_c_per_w: float = Field(gt=0)
    fast_s: float = Field(gt=0)
    slow_c_per_w: float = Field(gt=0)
    slow_s: float = Field(gt=0)
    ambient_c: float = 30.0
    slowdown_c: float = Field(gt=0)
    """Temperature at which the clock is lowered."""
    leakage_w_per_c: float = Field(default=0.0, ge=0)


class Sensor(_Data):
    """The power sensor: a new value each period, averaged over the preceding window."""

    update_ms: float = Field(gt=0)
    window_ms: float = Field(gt=0)


class MigProfile(_Data):
    """A MIG profile."""

    sms: int = Field(gt=0)
    compute_slices: int = Field(gt=0)
    memory_slices: int = Field(gt=0)
    """Eighths (A100, H100) or quarters (A30) of memory, bandwidth and L2."""
    memory_gib: float = Field(gt=0)
    instances: int = Field(gt=0)
    """Maximum number of instances of this profile."""


class Mig(_Data):
    """MIG support of a GPU."""

    compute_slices: int = Field(gt=0)
    memory_slices: int = Field(gt=0)
    profiles: Mapping[str, MigProfile]


KernelKind = Literal[
    "products", "products fp8", "products fp8 blocks", "experts", "experts fp8", "experts fp8 blocks",
    "prompts", "decoding", "sums",
]  # fmt: skip
"""Kinds of an engine's kernels: matrix products and experts by number format, attention, sums over GPUs."""


class KernelScale(_Data):
    """Time of kernels of a kind relative to their law."""

    times: float = Field(default=1.0, gt=0)
    added_us: float = 0.0

    def ns(self, law_ns: Floats) -> Floats:
        """Times by law, as they are."""
        return np.asarray(np.maximum(self.times * law_ns + self.added_us * 1e3, 0.0))


class GpuSpec(_Data):
    """One GPU."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    """The vendor's name."""
    architecture: Architecture
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    sms: int = Field(gt=0)
    warps_per_sm: int = Field(gt=0)
    """Maximum resident warps per SM."""
    clocks_mhz: Clocks
    vector_tflops: Rates
    """Rates without tensor cores."""
    tensor_tflops: Rates = Rates()
    """Rates with tensor cores."""
    bandwidth_gb_s: float = Field(gt=0)
    l2_mib: float = Field(gt=0)
    memory_gib: float = Field(gt=0)
    """Memory visible to a process."""
    context_mib: float = Field(gt=0)
    """Memory of a CUDA context with torch's libraries before the first tensor."""
    launch_us: float = Field(gt=0)
    """Overhead of a kernel on a busy stream: start, fill, drain."""
    host_gb_s: float = Field(gt=0)
    """Achieved bandwidth of pinned copies between host and device."""
    link_gb_s: float | None = Field(default=None, gt=0)
    """Bandwidth to other GPUs (NVLink), one direction; None: over PCIe, as to the host."""
    power: Power
    thermal: Thermal
    sensor: Sensor
    kernels: Mapping[KernelKind, KernelScale] = Field(default_factory=dict)
    """Scales that fit measured tables of this GPU."""
    solo_ms: tuple[Mapping[str, bool | int | float | str], ...] = ()
    """Times of workloads alone and probes of engines, measured on this GPU, that calibrate it."""
    mig: Mig | None = None
    mps: bool = True
    """Volta's MPS or later: concurrent kernels of several processes, with shares."""
    integrated: bool = False
    """Memory is shared with the CPU."""
    sources: Mapping[str, str] = Field(default_factory=dict)
    """Sources of the figures, by group of fields."""
    estimated: tuple[str, ...] = ()
    """Dotted paths of fields that no document states."""

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @model_validator(mode="after")
    def _estimates_exist(self) -> "GpuSpec":
        for path in self.estimated:
            value: object = self
            for part in path.split("."):
                value = getattr(value, part, None)
            if value is None:
                raise ValueError(f"'estimated' names {path!r}, which is not a field with a value")
        return self

    @model_validator(mode="after")
    def _instances_fit(self) -> "GpuSpec":
        for name, profile in (self.mig.profiles if self.mig else {}).items():
            if profile.sms > self.sms:
                raise ValueError(f"the MIG instance {name} has {profile.sms} SMs, but the GPU only {self.sms}")
        return self

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes."""
        return int(self.memory_gib * 2**30)

    @property
    def l2_bytes(self) -> float:
        """L2 in bytes."""
        return self.l2_mib * 2**20

    def vector_rate(self, dtype: str) -> float:
        """Operations per second without tensor cores; unsupported formats run as float32."""
        rates = self.vector_tflops
        value = getattr(rates, dtype) or rates.float32
        assert value is not None
        return float(value) * 1e12

    def tensor_rate(self, dtype: str) -> float | None:
        """Operations per second with tensor cores; float32 means TF32. None if they don't support the format."""
        value = getattr(self.tensor_tflops, "tf32" if dtype == "float32" else dtype)
        return None if value is None else float(value) * 1e12
