"""What solo profiles of CPU and of GPU tenants have in common."""

from dataclasses import dataclass

from cotenant.prediction.kernels.columns import Floats

LOG_SCALE, SHARE_SCALE = 1.5, 0.3
"""One step of distance: a factor of e^1.5 in a time, 0.3 in a share. About the spread of Gavel's 26 jobs; fixed, so
that the similarity of two tenants doesn't depend on the others in a study."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Columns with one entry per tenant."""

    solo_ns: Floats
    """Request time alone."""

    def __len__(self) -> int:
        """Number of tenants."""
        return int(self.solo_ns.size)
