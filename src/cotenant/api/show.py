"""`show`: what runs came to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.analyse.dvfs import Sweep
    from cotenant.analyse.sharing.summary import Summary
    from cotenant.reporting.terminal.device_use import DeviceUse
    from cotenant.store.imports.search_json import SearchJson


def show(runs: Sequence[Path]) -> "Summary":
    """Throughput, latency, slowdown, fairness: every number with its interval.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.analyse.sharing.summary import summarise
    from cotenant.store.observe import observations

    return summarise(observation for observation in observations(runs, raw=True) if observation.block >= 0)


def show_device(runs: Sequence[Path]) -> "tuple[DeviceUse, ...]":
    """What each mix did to the device: power, clock, heat, throttling, activity, energy; empty without such sensors.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.reporting.terminal.device_use import device_use
    from cotenant.store import views
    from cotenant.store.folder import RunFolder

    files = views.find_files(runs)
    con = views.open_views(files)
    try:
        with views.damage_named(files):
            return device_use(con, files, [RunFolder.open(run).manifest for run in runs])
    finally:
        con.close()


def show_sweeps(runs: Sequence[Path]) -> "tuple[Sweep, ...]":
    """Time, power and energy by clock or power limit, where a study swept them; empty where none did.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.analyse.dvfs import sweeps
    from cotenant.store import views
    from cotenant.store.clock_readings import clock_readings, swept

    con = views.connect(runs)
    try:
        return sweeps(clock_readings(con)) if swept(con) else ()
    finally:
        con.close()


def show_search_results(file: Path, *, skip_bad: bool = False) -> "SearchJson":
    """Times per stage from a result file of the original model-search study.

    Args:
        file: JSON with `measurements` by model and batch size.
        skip_bad: Leave models and batch sizes out that can't be used, and count them.

    Raises:
        DataError: It is no such file, or has entries that can't be used.
    """
    from cotenant.store.imports import search_json

    return search_json.read(file, skip_bad=skip_bad)
