"""`explain`: why a run came out as it did, or what a metric means."""

from typing import TYPE_CHECKING, Any

from cotenant.paths import Runs, run_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cotenant.analyse.explanation import Explanation
    from cotenant.analyse.neighbours import WatchedExplanation
    from cotenant.analyse.sharing import Metric


def explain(runs: Runs) -> "Explanation | WatchedExplanation":
    """What limits each tenant, what mixes contend for, the parts of each slowdown, and which mixes are worth it.

    Depends only on the run's records: the explanation is the same on any machine. Of watched servers: what their own
    load, their neighbours and a lack of cores or GPU time cost them.

    Args:
        runs: A run folder or the name of a saved baseline; or several on the same device, explained together.

    Raises:
        RunFolderError: It can't be read, or contains no trial.
    """
    from cotenant.analyse.explanation import explain_run
    from cotenant.analyse.neighbours import explain_watched
    from cotenant.analyse.result import result_of
    from cotenant.analyse.sharing import peaks_of
    from cotenant.errors import RunFolderError
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records
    from cotenant.store.watched import all_watched, read_watched

    paths = [baselines.resolve(str(run)) for run in run_paths(runs)]
    with open_runs(paths) as opened:
        watched, manifest = all_watched(opened), opened.manifests[0]
        devices = list(dict.fromkeys(str(manifest.get("device")) for manifest in opened.manifests))
        if len(devices) > 1:
            raise RunFolderError(
                f"An explanation is about one device; these runs are on {' and '.join(devices)}.",
                hint="explain each, or compare them: cotenant compare RUN RUN",
            )
        if watched:
            return explain_watched(read_watched(paths))
        found = evidence(opened)
        result = result_of(run_records(opened))  # the same decision as elsewhere, from all latencies
    if not found:
        raise RunFolderError(f"{paths[0]} contains no trial to explain.", hint="Continue it: cotenant run --resume RUN")
    return explain_run(found, peaks_of(manifest), result.summary, result.answer, lambda: _kinds(manifest))


def _kinds(manifest: "Mapping[str, Any]") -> dict[str, str]:
    """`encoder` or `decoder` for each tenant whose workload is in the catalogue."""
    from cotenant.store.manifest import workloads_of
    from cotenant.workloads import catalogue

    families = {entry.name: entry.family for entry in catalogue()}
    return {tenant: families[name] for tenant, name in workloads_of(manifest).items() if name in families}


def explain_metric(name: str) -> "Metric":
    """A metric's definition, formula, unit and caveats.

    Raises:
        QueryError: There is no such metric.
    """
    from cotenant.analyse.sharing import METRICS, find_metric, near_metrics
    from cotenant.errors import QueryError

    metric = find_metric(name)
    if metric is None:
        near = near_metrics(name)
        raise QueryError(
            f"There is no metric {name!r}.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"The metrics are {', '.join(METRICS)}.",
        )
    return metric
