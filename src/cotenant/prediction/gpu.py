"""What the simulation knows of a GPU: pure data, figures from data sheets, estimates named as such."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

DTYPES = ("float64", "float32", "float16", "bfloat16", "int8")
"""Number formats in the order of the codes that kernels carry."""

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
    """What it holds under heavy load at its power limit, where that is well below boost."""
    step: float = Field(default=15, gt=0)
    """Clocks can be locked in steps of this."""

    @property
    def under_load(self) -> float:
        """The clock to expect under load."""
        return self.sustained or self.boost

    def on_share(self, share: float) -> float:
        """The same where only this share of the SMs may work.

        Switching power goes with clock x voltage squared, and the voltage with the clock, so that a power limit leaves
        fewer SMs the cube root more.
        """
        return min(self.boost, self.under_load / float(np.cbrt(share)))

    @model_validator(mode="after")
    def _ordered(self) -> "Clocks":
        if not self.min <= self.base <= self.boost:
            raise ValueError("clocks must rise: min <= base <= boost")
        return self


class Rates(_Data):
    """Peak arithmetic, dense, at the boost clock; 10^12 operations per second (an FMA is two). None: it can't."""

    float64: float | None = Field(default=None, gt=0)
    float32: float | None = Field(default=None, gt=0)
    tf32: float | None = Field(default=None, gt=0)
    """Tensor cores only: float32 inputs, rounded."""
    float16: float | None = Field(default=None, gt=0)
    bfloat16: float | None = Field(default=None, gt=0)
    int8: float | None = Field(default=None, gt=0)


class Power(_Data):
    """Watts, and where on the clock the voltage starts to rise."""

    limit_w: float = Field(gt=0)
    """Default limit of the board."""
    min_limit_w: float = Field(gt=0)
    """The lowest limit that can be set."""
    idle_w: float = Field(gt=0)
    awake_w: float = Field(default=0.0, ge=0)
    """What a context alone adds to that apart from clocked SMs: GDDR memory that leaves its low clock."""
    knee_mhz: float = Field(gt=0)
    """Voltage is flat below this clock and rises above it."""

    @model_validator(mode="after")
    def _ordered(self) -> "Power":
        if not self.idle_w < self.min_limit_w <= self.limit_w:
            raise ValueError("power must rise: idle_w < min_limit_w <= limit_w")
        return self


class Thermal(_Data):
    """Two poles over the air: the die and its heat sink; and what heat does to leakage."""

    fast_c_per_w: float = Field(gt=0)
    fast_s: float = Field(gt=0)
    slow_c_per_w: float = Field(gt=0)
    slow_s: float = Field(gt=0)
    ambient_c: float = 30.0
    slowdown_c: float = Field(gt=0)
    """At this temperature the clock is pulled down."""
    leakage_w_per_c: float = Field(default=0.0, ge=0)


class Sensor(_Data):
    """How the power sensor sees: a new value each period, averaged over the last window."""

    update_ms: float = Field(gt=0)
    window_ms: float = Field(gt=0)


class MigProfile(_Data):
    """One kind of instance that a GPU can be cut into."""

    sms: int = Field(gt=0)
    compute_slices: int = Field(gt=0)
    memory_slices: int = Field(gt=0)
    """Eighths (A100, H100) or quarters (A30) of memory, bandwidth and L2."""
    memory_gib: float = Field(gt=0)
    instances: int = Field(gt=0)
    """How many of this kind fit."""


class Mig(_Data):
    """How a GPU can be cut."""

    compute_slices: int = Field(gt=0)
    memory_slices: int = Field(gt=0)
    profiles: Mapping[str, MigProfile]


class GpuSpec(_Data):
    """One GPU."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    """As the vendor calls it."""
    architecture: Architecture
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    sms: int = Field(gt=0)
    warps_per_sm: int = Field(gt=0)
    """Warps that can be resident on an SM."""
    clocks_mhz: Clocks
    vector_tflops: Rates
    """Without tensor cores."""
    tensor_tflops: Rates = Rates()
    """With them."""
    bandwidth_gb_s: float = Field(gt=0)
    l2_mib: float = Field(gt=0)
    memory_gib: float = Field(gt=0)
    """What a process can see of it."""
    context_mib: float = Field(gt=0)
    """What a CUDA context with torch's libraries takes before the first tensor."""
    launch_us: float = Field(gt=0)
    """What a kernel takes beside its work on a busy stream: start, fill, drain."""
    host_gb_s: float = Field(gt=0)
    """What copies between host and device reach, pinned."""
    link_gb_s: float | None = Field(default=None, gt=0)
    """What it can send to other GPUs (NVLink), one direction; None: over PCIe, as to the host."""
    power: Power
    thermal: Thermal
    sensor: Sensor
    mig: Mig | None = None
    mps: bool = True
    """Volta's MPS or later: kernels of several processes at once, with shares."""
    integrated: bool = False
    """Shares its memory with the CPU."""
    sources: Mapping[str, str] = Field(default_factory=dict)
    """Where the figures come from, by group of fields."""
    estimated: tuple[str, ...] = ()
    """Fields that no document states; dotted paths."""

    @model_validator(mode="after")
    def _estimates_exist(self) -> "GpuSpec":
        for path in self.estimated:
            place: object = self
            for part in path.split("."):
                place = getattr(place, part, None)
            if place is None:
                raise ValueError(f"'estimated' names {path!r}, which is not a field that has a value")
        return self

    @model_validator(mode="after")
    def _instances_fit(self) -> "GpuSpec":
        for name, profile in (self.mig.profiles if self.mig else {}).items():
            if profile.sms > self.sms:
                raise ValueError(f"the MIG instance {name} has {profile.sms} SMs, and the GPU {self.sms}")
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
        """Operations per second without tensor cores; formats that it lacks run as float32."""
        rates = self.vector_tflops
        value = getattr(rates, dtype) or rates.float32
        assert value is not None
        return float(value) * 1e12

    def tensor_rate(self, dtype: str) -> float | None:
        """Operations per second with tensor cores; float32 means TF32. None: it has none for this format."""
        value = getattr(self.tensor_tflops, "tf32" if dtype == "float32" else dtype)
        return None if value is None else float(value) * 1e12
