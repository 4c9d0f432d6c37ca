"""Results on a workload's batch size on a device."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.analyse.batching import Advice, Impact
from cotenant.measure.batching.verification import Verified
from cotenant.prediction.batch_limit import Prediction

MARGIN = 0.05
"""Share of the largest batch that ran that is kept free, for fragmentation and longer inputs."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """Results on one workload's batch size on one device."""

    workload: str
    dtype: str
    device: str
    simulated: bool
    predicted: Prediction
    verified: Verified | None = None
    impacts: tuple[Impact, ...] = ()
    advice: Advice | None = None
    run: Path | None = None
    """The run folder behind the impacts."""

    @property
    def largest(self) -> int:
        """The largest batch: verified if it was tried, otherwise predicted."""
        return self.predicted.batch if self.verified is None else self.verified.largest

    @property
    def safe(self) -> int:
        """The largest batch, less a margin."""
        return int(self.largest * (1 - MARGIN))

    def to_json(self) -> dict[str, Any]:
        """As JSON, with derived figures and what is estimated."""
        predicted, verified = self.predicted, self.verified
        return {
            "workload": self.workload,
            "dtype": self.dtype,
            "device": self.device,
            "simulated": self.simulated,
            "max_batch": self.largest,
            "safe_batch": self.safe,
            "power_of_two": 1 << (self.largest.bit_length() - 1) if self.largest else 0,
            "estimated": verified is None,
            "predicted": {
                "batch": predicted.batch,
                "needed_bytes": predicted.bytes_at(predicted.batch),
                "limit": predicted.limit,
                "weight_bytes": predicted.growth.weight_bytes,
                "fixed_bytes": predicted.growth.fixed_bytes,
                "per_item_bytes": predicted.growth.per_item_in(predicted.room),
                "available_bytes": predicted.room.available_bytes,
            },
            "verified": verified,
            "impacts": self.impacts,
            "advice": self.advice,
            "run": self.run,
        }
