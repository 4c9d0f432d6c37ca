"""The lists: studies, devices, workloads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.devices import DeviceInfo
    from cotenant.study.library import StudyInfo
    from cotenant.workloads import WorkloadInfo


def list_studies() -> "tuple[StudyInfo, ...]":
    """The built-in studies."""
    from cotenant.study.library import builtin_studies

    return builtin_studies()


def list_devices() -> "tuple[DeviceInfo, ...]":
    """The devices of this machine."""
    from cotenant import devices

    return devices.list_devices()


def list_workloads(words: str | None = None) -> "tuple[WorkloadInfo, ...]":
    """The catalogue with what one request of each entry costs at its defaults.

    The costs come from a dry run without weights, remembered after the first time.

    Args:
        words: Only the entries whose name, family or description hold all of these.
    """
    from cotenant.workloads import catalogue, described

    wanted = (words or "").lower().split()
    found = [
        entry
        for entry in catalogue()
        if all(word in f"{entry.name} {entry.family} {entry.about}".lower() for word in wanted)
    ]
    return tuple(described(entry) for entry in found)
