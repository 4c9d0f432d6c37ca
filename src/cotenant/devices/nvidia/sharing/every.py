"""All sharing modes of a GPU: which are available here, and how each lays out a mix."""

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeVar

from cotenant.devices.nvidia.sharing import green, mig, mps, mps_static, undivided
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace
from cotenant.devices.protocol import Fixture, SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE

SPLITTING = ("mps", "mps-static", "green", "mig")
WITHIN = ("processes", "mps", "streams")
"""Modes available within a MIG instance."""

Fixtures = MutableMapping[str, Fixture]
"""Fixtures by their distinguishing key, so that arrangements share them."""
Kind = TypeVar("Kind", bound=Fixture)


def sharing_modes(place: GpuPlace) -> tuple[SharingMode, ...]:
    """Every sharing mode of this GPU, except `alone`, the baseline."""
    found = (
        undivided.processes(place),
        mps.available(place),
        mps_static.available(place),
        undivided.streams(),
        green.available(place),
        mig.available(place),
        undivided.exclusive(place),
    )
    if place.instance:
        return tuple(_only(mode, WITHIN, "a full GPU: the device is a MIG instance", "mps") for mode in found)
    if place.gpu.mig_mode:
        why = f"MIG to be off: while it is on, {place.gpu.label} can't be used as a whole"
        return tuple(_only(mode, ("mig",), why, "mig") for mode in found)
    return found


def _only(mode: SharingMode, fit: Sequence[str], why: str, instead: str) -> SharingMode:
    if mode.mode in fit:
        return mode
    return SharingMode(mode.mode, mode.meaning, available=False, missing=why, instead=instead)


def arrange(  # noqa: PLR0911 - a return per way
    place: GpuPlace, fixtures: Fixtures, sharing: Sharing, tenants: Sequence[Tenant]
) -> GpuArrangement:
    """Lay a mix out.

    Args:
        place: The GPU.
        fixtures: Those created so far; new ones are added.
        sharing: The mode and shares.
        tenants: The tenants of the mix.

    Raises:
        SharingUnavailable: The mode is unavailable; says what is missing and the next best mode.
    """
    if sharing.mode == ALONE:
        return undivided.one_process_each(place, ALONE, tenants)
    modes = {mode.mode: mode for mode in sharing_modes(place)}
    _require(place, modes, sharing)
    match sharing.mode:
        case "processes":
            return undivided.one_process_each(place, "processes", tenants)
        case "streams":
            return undivided.threads(place, "streams", tenants)
        case "exclusive":
            locked = _fixture(fixtures, "exclusive", lambda: undivided.ExclusiveFixture(place.gpu))
            return undivided.threads(place, "exclusive", tenants, locked)
        case "green":
            return green.arrange(place, sharing, tenants)
        case "mps":
            return mps.arrange(place, _fixture(fixtures, "mps", lambda: mps.MpsFixture(place)), sharing, tenants)
        case "mps-static":
            chunks = mps_static.chunks_of(place, sharing, tenants)
            cut = _fixture(fixtures, f"mps-static {chunks}", lambda: mps_static.StaticFixture(place, chunks))
            return mps_static.arrange(place, cut, chunks, tenants)
        case _:
            profiles = mig.wanted(place, sharing, tenants)
            instances = _fixture(fixtures, f"mig {profiles}", lambda: mig.MigFixture(place.gpu, profiles))
            return mig.arrange(place, instances, tenants)


def _require(place: GpuPlace, modes: dict[str, SharingMode], sharing: Sharing) -> None:
    mode = modes.get(sharing.mode)
    if mode is None:
        usable = [name for name, mode in modes.items() if mode.available]
        raise SharingUnavailable(
            f"`{sharing.mode}` is not available on a GPU", hint=f"use one of {', '.join(usable) or 'none here'}"
        )
    # Modes that affect others (turning MIG on, locking everyone else out) are not in `sharing: all`, but can be named.
    whole = not place.instance and not place.gpu.mig_mode
    on_request = (mode.mode == "mig" and not place.instance and mig.missing(place) is None) or (
        mode.mode == "exclusive" and whole and undivided.exclusive_lacks(place) is None
    )
    if not mode.available and not on_request:
        instead = f"use `{mode.instead}`; " if mode.instead else ""
        raise SharingUnavailable(
            f"`{sharing.mode}` needs {mode.missing}", hint=f"{instead}run `cotenant doctor` to see what is set up here"
        )
    if sharing.shares and sharing.mode not in SPLITTING:
        raise SharingUnavailable(
            f"`{sharing.mode}` does not split a GPU, so it takes no shares ({sharing})",
            hint="write `mps: [60, 40]` to cap what tenants use",
        )


def _fixture(fixtures: Fixtures, key: str, make: Callable[[], Kind]) -> Kind:
    found = fixtures.get(key)
    if found is None:
        found = fixtures[key] = make()
    return found  # type: ignore[return-value]  # the key says which kind it is
