"""`explain`: why a run came out as it did, or what a metric means."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cotenant.analyse.explanation.explain import Explanation
    from cotenant.analyse.sharing.evidence import Peaks
    from cotenant.analyse.sharing.metrics import Metric


def explain(run: str | Path) -> "Explanation":
    """What binds each tenant, what mixes fight over, the parts of each slowdown, and which mixes are worth it.

    The device's peak rates are measured if they are not known yet and the run is from this machine.

    Args:
        run: A run folder, or the name of a saved baseline.

    Raises:
        RunFolderError: It can't be read, or holds no trial.
    """
    from cotenant.analyse.explanation.explain import explain_run
    from cotenant.api.device_facts import cores_of
    from cotenant.errors import RunFolderError
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.folder import RunFolder

    folder = RunFolder.open(baselines.resolve(str(run)))
    found = evidence([folder.path], {folder.run: cores_of(folder.manifest)})
    if not found:
        raise RunFolderError(
            f"{folder.path} holds no trial to explain.", hint="Go on with it: cotenant run --resume RUN"
        )
    return explain_run(found, _peaks(folder.manifest))


def explain_metric(name: str) -> "Metric":
    """A metric's definition, formula, unit and caveats.

    Raises:
        QueryError: There is no such metric.
    """
    from cotenant.analyse.sharing.metrics import METRICS, find_metric, near_metrics
    from cotenant.errors import QueryError

    metric = find_metric(name)
    if metric is None:
        near = near_metrics(name)
        raise QueryError(
            f"There is no metric {name!r}.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"The metrics are {', '.join(METRICS)}.",
        )
    return metric


def _peaks(manifest: "Mapping[str, Any]") -> "Peaks":
    """From the device, if it is the one of this machine; what the manifest says of it in any case."""
    from cotenant.analyse.sharing.evidence import Peaks
    from cotenant.api.device_facts import cores_of, described
    from cotenant.devices import find_device
    from cotenant.errors import CotenantError

    stated = described(manifest)
    memory, caches = stated.get("memory_bytes"), stated.get("caches_bytes")
    sensors = manifest.get("sensors")
    facts: dict[str, Any] = {
        "cores": cores_of(manifest) if "cores" in stated else None,
        "memory_bytes": memory if isinstance(memory, int) else None,
        "cache_bytes": max(caches.values(), default=None) if isinstance(caches, dict) else None,
        "counters": isinstance(sensors, list)
        and any(isinstance(one, dict) and "cache" in str(one.get("name")) for one in sensors),
    }
    try:
        device = find_device(str(manifest.get("device")))
        here = device.describe()
        if any(here.get(name) != stated.get(name) for name in ("model", "cores", "memory_bytes")):
            return Peaks(**facts)
        measured = device.roofline()
    except CotenantError:
        return Peaks(**facts)
    return Peaks(
        **facts,
        flops_per_s=dict(measured.flops_per_s),
        bytes_per_s=measured.bytes_per_s,
        undisturbed=measured.undisturbed,
    )
