"""The goals of the study behind a run, read back from its manifest."""

from collections.abc import Mapping, Sequence
from typing import Any


def own_loads(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Loads of tenants that have their own, by name."""
    return _of_tenants(manifest, "load")


def workloads_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The workload of each tenant, by name."""
    return _of_tenants(manifest, "workload")


def _of_tenants(manifest: Mapping[str, Any], key: str) -> dict[str, str]:
    from cotenant.errors import StudyError
    from cotenant.tenancy.document import NotYaml, read

    try:
        tenants = read(str(manifest.get("study", ""))).data["tenants"].items()
        return {str(name): str(entry[key]) for name, entry in tenants if entry.get(key)}
    except (StudyError, NotYaml, KeyError, TypeError, AttributeError, ValueError):  # not written by `run`
        return {}


def asked_interval(manifests: Sequence[Mapping[str, Any]]) -> float | None:
    """The target precision of slowdowns (relative half-width), if all runs are of one study."""
    from cotenant.errors import StudyError
    from cotenant.tenancy.document import NotYaml, read
    from cotenant.tenancy.words import share_of_one

    asked = {str(manifest.get("study", "")) for manifest in manifests}
    if len(asked) != 1 or not (text := asked.pop()):
        return None
    try:
        return share_of_one(read(text).data["until"]["interval"])
    except (StudyError, NotYaml, KeyError, TypeError, ValueError):  # no target, or not written by `run`
        return None
