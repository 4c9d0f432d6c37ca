"""All that `show` prints of a result."""

from rich.console import RenderableType

from cotenant.analyse.sharing.result import Result
from cotenant.analyse.sharing.sentences import headline
from cotenant.reporting.terminal.device_use import device_tables
from cotenant.reporting.terminal.dvfs import dvfs_parts
from cotenant.reporting.terminal.heading import heading
from cotenant.reporting.terminal.tables import sentence_list, summary_tables


def result_parts(result: Result) -> tuple[RenderableType, ...]:
    """Settings first, the answer in one sentence, then tables, failed checks and sentences."""
    return (
        heading(result.manifests, result.summary),
        *([sentence_list([answer])] if (answer := headline(result.summary)) else []),
        *summary_tables(result.summary, result.reasons),
        *device_tables(result.device_use),
        *dvfs_parts(result.sweeps),
        sentence_list([*result.notes, *result.sentences]),
    )
