"""A measured time of a request alone, which calibrates a simulated GPU."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cotenant.workloads.protocol import Dtype, Software, WorkloadSpec, in_steps

PROBED = ("in_flight", "ttft_ms", "tpot_ms")
"""What only a probe of an engine has."""


class SoloTime(BaseModel):
    """One measured time of a request alone on the whole device; None in a field matches any value."""

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
    tpot_ms: float | None = Field(default=None, gt=0)
    row: str = ""
    """Where it is written, for messages."""

    @model_validator(mode="after")
    def _whole(self) -> "SoloTime":
        given = [name for name in ("seq", "tokens", *PROBED) if getattr(self, name) is not None]
        if any(name in PROBED for name in given) and len(given) < 2 + len(PROBED):
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
