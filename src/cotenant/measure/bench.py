"""What carries out trials: real tenants on a real device, or a model of one. The runner can't tell the difference."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords


class Bench(Protocol):
    """A device made ready for trials."""

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Do ahead of time what these trials need. Raises TenantFailed if a tenant can't be built."""
        ...

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """One trial; whatever happens to its tenants is recorded, never raised."""
        ...

    def refresh(self) -> None:
        """The next trials get fresh tenants."""
        ...

    def pause(self, seconds: float) -> None:
        """Let time go by between blocks: a simulated device's own, for a real one the world's."""
        ...

    def close(self) -> None:
        """End in order."""
        ...

    def kill(self) -> None:
        """End at once."""
        ...
