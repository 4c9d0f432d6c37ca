"""Accuracy of the simulation, as a table."""

import math
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.text import NOTHING, figure, literal
from validation.result import Measure, Result, Skipped


def progress(result: Result | Skipped) -> str:
    """What has just been compared, or why it was not."""
    return (
        f"{result.data_set}: skipped. {result.why}"
        if isinstance(result, Skipped)
        else f"{result.data_set}: {result.what}"
    )


def summary(results: Sequence[Result], skipped: Sequence[Skipped] = ()) -> Group:
    """A table per question, omissions, and the number of targets reached."""
    parts: list[RenderableType] = []
    for result in results:
        parts.append(Text(literal(f"{result.data_set}: {result.what}"), "bold"))
        parts.append(Text(f"{result.n} rows, {result.n_held_out} held out. {literal(result.split)}", "dim"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in ("measure", "simulated", "measured", "baselines", "target", ""):
            table.add_column(name, justify="right" if name in {"simulated", "measured"} else "left", overflow="fold")
        for measure in result.measures:
            table.add_row(*(Text(literal(cell)) for cell in cells(measure)), _mark(measure))
        parts.append(table)
        parts.extend(Text(literal(sentence), "dim") for sentence in result.left_out)
        parts.append(Text())
    parts.extend(Text(literal(progress(data_set)), "yellow") for data_set in skipped)
    parts.append(Text(literal(verdict(results, skipped))))
    return Group(*parts)


def verdict(results: Sequence[Result], skipped: Sequence[Skipped] = ()) -> str:
    """One sentence: how many targets were reached, which were missed, which could not be judged."""
    judged = [(result, measure) for result in results for measure in result.measures if measure.target is not None]
    empty = [f"{measure.name} ({result.data_set})" for result, measure in judged if not measure.n]
    missed = [f"{measure.name} ({result.data_set})" for result, measure in judged if measure.reached is False]
    parts = [f"{sum(bool(measure.reached) for _, measure in judged)} of {len(judged)} targets are reached"]
    if missed:
        parts.append(f"missed: {', '.join(missed)}")
    if empty:
        parts.append(f"no held-out rows for: {', '.join(empty)}")
    if skipped:
        parts.append(f"not compared: {', '.join(missing.data_set for missing in skipped)}")
    return f"{'; '.join(parts)}."


def cells(measure: Measure) -> tuple[str, str, str, str, str]:
    """Name, simulated, measured, baselines and target of a measure, as text."""
    baselines = ", ".join(f"{name}: {_with_unit(value, measure.unit)}" for name, value in measure.baselines.items())
    return (
        measure.name,
        _with_unit(measure.value, measure.unit),
        NOTHING if measure.measured is None else _with_unit(measure.measured, measure.unit),
        baselines or NOTHING,
        target(measure),
    )


def target(measure: Measure) -> str:
    """The target as text: `≤ 8 %`, `≥ 0.97`, `7.7 to 9.7 %`."""
    if measure.target is None:
        return NOTHING
    low, high = measure.target.low, measure.target.high
    unit = f" {measure.unit}" if measure.unit else ""
    if math.isinf(low):
        return f"≤ {high:g}{unit}"
    if math.isinf(high):
        return f"≥ {low:g}{unit}"
    return f"{low:g} to {high:g}{unit}"


def _with_unit(value: float, unit: str) -> str:
    if math.isnan(value):
        return NOTHING
    shown = f"{value:.3f}" if not unit and abs(value) <= 1 else figure(value)
    return f"{shown} {unit}".strip()


def _mark(measure: Measure) -> Text:
    if measure.reached is None:
        return Text() if measure.target is None else Text("no rows", "yellow")
    return Text("reached", "green") if measure.reached else Text("missed", "bold red")
