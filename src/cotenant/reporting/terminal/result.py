"""Output of `show`: the answer on one screen, or everything."""

from collections import Counter

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.result import Result
from cotenant.analyse.sharing.capacity import capacity_curves
from cotenant.reporting.main_table import main_table
from cotenant.reporting.terminal.answer import answer_parts, side_by_side_parts
from cotenant.reporting.terminal.device_use import device_tables
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import capacity_table, dvfs_parts, heading, sentence_list, summary_tables
from cotenant.text import amount


def answer_screen(result: Result) -> tuple[RenderableType, ...]:
    """The answer, its precision, and the device."""
    parts = _answer(result)
    measured = [manifest for manifest in result.manifests if not manifest.get("simulated")]
    # The precision of a simulated run is that of its samples; the model's error is in the intervals.
    good_to = [accuracy.sentence() for accuracy in result.summary.accuracy.values()] if measured else []
    return (*parts, Text(literal(" ".join([*result.notes, *good_to, _where(result)])), "dim"))


def result_parts(result: Result) -> tuple[RenderableType, ...]:
    """The answer, then settings, every table, failed checks and sentences."""
    return (
        *_answer(result, everything=True),
        heading(result.manifests, result.summary),
        *summary_tables(result.summary, result.reasons, result.manifests[0].get("windows", {})),
        *capacity_table(capacity_curves(result.summary)),
        *device_tables(result.device_use),
        *dvfs_parts(result.sweeps),
        sentence_list([*result.notes, *result.sentences]),
    )


def _answer(result: Result, *, everything: bool = False) -> tuple[RenderableType, ...]:
    beside = result.side_by_side
    if beside is not None:
        return side_by_side_parts(beside, everything=everything)
    table = main_table(result)
    tables = () if table is None else (listing(table.columns, table.rows),)
    return answer_parts(result.answer, result.opening, *tables)


def _where(result: Result) -> str:
    devices = list(dict.fromkeys(str(manifest.get("device", "?")) for manifest in result.manifests))
    valid = sum(mix.trials_by_verdict.get("valid", 0) for mix in result.mixes)
    trials = sum(sum(mix.trials_by_verdict.values()) for mix in result.mixes)
    simulated = any(manifest.get("simulated") for manifest in result.manifests)
    computed = " SIMULATED: a model computed this; nothing was measured." if simulated else ""
    where = f"{valid:,} of {trials:,} trials valid on {', '.join(devices)}."
    return f"{where}{_failed(result)}{computed} Everything: --all."


def _failed(result: Result) -> str:
    """The most frequently failed check, and why."""
    failed: Counter[str] = Counter()
    for mix in result.mixes:
        failed.update(mix.failed_checks)
    if not failed:
        return ""
    name, trials = failed.most_common(1)[0]
    why = f", last because {reason}" if (reason := result.reasons.get(name)) else ""
    return f" {name} failed in {amount(trials, 'trial')}{why}."
