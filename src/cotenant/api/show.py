"""`show`: what runs came to."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.paths import AnyPath, Runs, run_paths

if TYPE_CHECKING:
    from cotenant.analyse.sharing.result import Result
    from cotenant.store.imports.search_json import SearchJson


def show(runs: Runs) -> "Result":
    """Throughput, latency, slowdown, fairness, each with its interval; what the device did; what to do.

    Args:
        runs: A run folder, or several to be read together.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.store.reading import open_runs
    from cotenant.store.results import result_of

    with open_runs(run_paths(runs)) as opened:
        return result_of(opened)


def show_search_results(file: AnyPath, *, skip_bad: bool = False) -> "SearchJson":
    """Times per stage from a result file of the original model-search study.

    Args:
        file: JSON with `measurements` by model and batch size.
        skip_bad: Leave models and batch sizes out that can't be used, and count them.

    Raises:
        DataError: It is no such file, or has entries that can't be used.
    """
    from cotenant.store.imports import search_json

    file = Path(file)
    return search_json.read(file, skip_bad=skip_bad)
