"""`show`: results of runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath, Runs, run_paths

if TYPE_CHECKING:
    from cotenant.api.handles import Run
    from cotenant.store.imports import SearchJson


def show(runs: Runs) -> "Run":
    """Throughput, latency, slowdown and fairness, each with its interval; device use; recommendations.

    Args:
        runs: A run folder, or several to be read together.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.analyse.result import result_of
    from cotenant.api.handles import Run
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records

    with open_runs(run_paths(runs)) as opened:
        return Run.of(result_of(run_records(opened)))


def show_search_results(file: AnyPath, *, skip_bad: bool = False) -> "SearchJson":
    """Times per stage from a result file of the original model-search study.

    Args:
        file: JSON with `measurements` by model and batch size.
        skip_bad: Skip and count unusable models and batch sizes.

    Raises:
        DataError: It is not such a file, or has unusable entries.
    """
    from cotenant.store.imports import search_json

    file = Path(file)
    return search_json.read(file, skip_bad=skip_bad)
