"""How `run` and `show` print what came out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.cli.output import console, show

if TYPE_CHECKING:
    from cotenant.analyse.sharing.summary import Summary

QUESTION = '"select trial, mix, sharing, verdict, reasons from trials"'
"""A first question to the records, quoted for a shell."""


def show_result(summary: "Summary", runs: Sequence[Path]) -> None:
    """Settings, tables, failed checks and sentences, on stdout."""
    from cotenant.analyse.sharing.sentences import closing_sentences
    from cotenant.api.show import show_device, show_sweeps
    from cotenant.measure.profile.session import MARK
    from cotenant.reporting.terminal.device_use import device_tables
    from cotenant.reporting.terminal.dvfs import dvfs_parts
    from cotenant.reporting.terminal.heading import heading
    from cotenant.reporting.terminal.tables import sentence_list, summary_tables
    from cotenant.store.folder import RunFolder
    from cotenant.store.reasons import latest_reasons
    from cotenant.study.asked import asked_interval

    manifests = [RunFolder.open(run).manifest for run in runs]
    used = device_tables(show_device(runs))
    sentences = [
        *(_to_profile(run) for run, manifest in zip(runs, manifests, strict=True) if MARK in manifest),
        *closing_sentences(summary, asked_interval(manifests)),
    ]
    swept = dvfs_parts(show_sweeps(runs))
    show(
        heading(manifests, summary),
        *summary_tables(summary, latest_reasons(runs)),
        *used,
        *swept,
        sentence_list(sentences),
    )


def _to_profile(run: Path) -> str:
    import shlex

    where = shlex.quote(str(run))
    return f"{run} is a profile pass, which no times are taken from. Its kernels: cotenant profile {where}"


def show_next(folder: Path) -> None:
    """What to do with the run now, on stderr."""
    import shlex

    from rich.text import Text

    where = shlex.quote(str(folder))
    talk = Text(
        f"\nagain: cotenant show {where}\npage:  cotenant report {where}\nwhy:   cotenant explain {where}\n"
        f"more:  cotenant sql {QUESTION} {where}",
        "dim",
    )
    console(talk=True).print(talk, soft_wrap=True)
