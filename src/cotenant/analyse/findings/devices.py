"""One study on several devices side by side: the recommendation for each mix on each device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.analyse.decision import Answer, Choice
from cotenant.analyse.decision.wording import headline, mix_name
from cotenant.analyse.tabular import plain


@dataclass(frozen=True, slots=True)
class OnDevices:
    """One mix under one load and setting."""

    mix: str
    under: str
    """Load and settings, where they differ."""
    choices: tuple[Choice | None, ...]
    """Choices in the order of the devices; None where the mix was not measured."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All mixes on all devices."""

    devices: tuple[str, ...]
    rows: tuple[OnDevices, ...]
    said: tuple[str, ...]
    """The recommendation on each device."""
    left_out: tuple[str, ...]
    """Mixes that did not fit on a device."""

    @property
    def regression(self) -> bool:
        """Always false: devices side by side are not a before and after, so nothing became slower."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        rows = [
            {
                "mix": row.mix,
                "under": row.under,
                "devices": {
                    device: None
                    if choice is None
                    else {"verdict": choice.verdict, "sharing": choice.best.cell.sharing, "work": choice.best.work}
                    for device, choice in zip(self.devices, row.choices, strict=True)
                },
            }
            for row in self.rows
        ]
        found: dict[str, Any] = plain({"said": self.said, "left_out": self.left_out, "mixes": rows})
        return found


def side_by_side(answer: Answer, manifests: Sequence[Mapping[str, Any]]) -> SideBySide | None:
    """Compare devices; None if there is only one."""
    devices = tuple(dict.fromkeys(choice.best.cell.device for choice in answer.choices))
    if len(devices) < 2:
        return None
    several = [
        name for name in ("load", "settings") if len({getattr(one.best.cell, name) for one in answer.choices}) > 1
    ]
    rows: dict[tuple[str, str], dict[str, Choice]] = {}
    for choice in answer.choices:
        under = ", ".join(str(getattr(choice.best.cell, name)) for name in several)
        called = min((mix_name(choice.best.standings), choice.best.cell.mix), key=len)
        rows.setdefault((called, under), {})[choice.best.cell.device] = choice
    return SideBySide(
        devices,
        tuple(
            OnDevices(mix, under, tuple(found.get(device) for device in devices))
            for (mix, under), found in rows.items()
        ),
        tuple(f"On {device}: {said}" for device in devices for said in _on(answer, device)[:1]),
        tuple(
            f"{manifest.get('device', '?')}: {sentence}"
            for manifest in manifests
            for sentence in manifest.get("too_small_for") or ()
        ),
    )


def _on(answer: Answer, device: str) -> list[str]:
    alone = tuple(one for one in answer.missed_alone if device in one.under)
    return headline(Answer(alone, tuple(one for one in answer.choices if one.best.cell.device == device)))
