"""The trials of a run on one device: the study's, less those that `sharing: all` asks for and the device can't do."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import Device
from cotenant.errors import SharingUnavailable
from cotenant.study.expand import expand
from cotenant.study.model import Study
from cotenant.tenancy import Block


@dataclass(frozen=True, slots=True)
class Plan:
    """A study made definite: the same blocks today and when the run is resumed."""

    study: Study
    modes: tuple[str, ...]
    """The ways to share that `sharing: all` stands for."""
    left_out: tuple[str, ...] = ()
    """Why some mixes are not measured under some of them, one sentence each."""
    _skipped: frozenset[tuple[str, str]] = frozenset()

    @property
    def trials_per_block(self) -> int:
        """How many trials each block has."""
        return len(self.block(0).trials)

    def block(self, number: int) -> Block:
        """The trials of one block, in their order."""
        whole = expand(self.study, number, self.modes)
        kept = tuple(trial for trial in whole.trials if (trial.mix, str(trial.sharing)) not in self._skipped)
        return Block(number=number, trials=kept)


def plan_for(study: Study, device: Device, modes: Sequence[str] | None = None) -> Plan:
    """Lay every mix out once, on paper, before anything starts.

    Raises:
        SharingUnavailable: The study names a sharing that the device can't give to one of its mixes.
    """
    if modes is None:
        modes = [mode.mode for mode in device.sharings() if mode.available]
    skipped: dict[tuple[str, str], str] = {}
    for trial in expand(study, 0, modes).trials:
        try:
            device.arrange(trial.sharing, trial.tenants)
        except SharingUnavailable as refusal:
            sentence = f"{trial.mix}: {refusal.message}"
            if study.sharing != "all":
                raise SharingUnavailable(sentence, hint=refusal.hint) from None
            skipped[trial.mix, str(trial.sharing)] = sentence
    return Plan(study, tuple(modes), tuple(skipped.values()), frozenset(skipped))
