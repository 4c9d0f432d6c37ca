"""Accuracy of the simulation, as a page: data, measures and a figure each."""

from collections import Counter
from collections.abc import Sequence

from validation.result import Result, Skipped
from validation.scatter import scatter
from validation.tables import cells, progress, verdict

PARTS = """# Accuracy of the parts of the simulation

Single laws beside measurements: products of layers, kernels, memory, power, fleets, sensors. Written by
`make validate DATA=DIR`; nothing here is edited by hand. The accuracy of studies on simulated GPUs is in
[validation.md](validation.md).

Every figure in the tables is taken over held-out models, GPUs or cabinets, never over random rows, beside those of
trivial baselines on the same rows. Errors are |simulated / measured - 1| unless a measure says
otherwise; where a measure describes a population, the column *measured* has its value in the held-out data.
"""
ENGINES = """# Accuracy of language-model engines

Kernels, steps, loads and generations of engines beside public measurements, by the laws of simulated GPUs. Written by
`make validate DATA=DIR`; nothing here is edited by hand.

Errors are |simulated / measured - 1| over rows that no constant was fitted on, unless a measure says otherwise, beside
those of simple laws on the same rows.
"""
MOST_POINTS = 1500
"""Maximum points in a figure, thinned evenly; tables use all."""


def markdown(
    results: Sequence[Result], skipped: Sequence[Skipped] = (), *, folder: str | None, head: str = PARTS
) -> str:
    """The page; figures are expected in ``folder`` beside it, None for a page without."""
    parts = [head, _text(verdict(results, skipped)), "", *(f"- {_text(progress(one))}" for one in skipped)]
    parts += [""] if skipped else []
    for result, figure in zip(results, _names(folder or "", results), strict=True):
        parts += [
            f"## {_text(result.data_set)}: {_text(result.what)}",
            "",
            f"{_text(result.source)}. {result.n} rows, {result.n_held_out} held out. {_text(result.split)}",
            "",
            "| measure | simulated | measured | baselines | target | reached |",
            "|---|---:|---:|---|---|---|",
        ]
        for measure in result.measures:
            unknown = "" if measure.target is None else "no rows"
            reached = unknown if measure.reached is None else "yes" if measure.reached else "**no**"
            fitted = "" if measure.fitted is None else f" (rows used for fitting: {measure.fitted:.3g})"
            name, value, *rest = (_text(cell) for cell in cells(measure))
            parts.append(f"| {name} | {value}{fitted} | {' | '.join(rest)} | {reached} |")
        notes = (*result.notes, *result.left_out)
        parts += ["", *(f"- {_text(note)}" for note in notes), *([""] if notes else [])]
        if result.rows and folder is not None:
            parts += [f"![{_text(result.quantity)}: simulated over measured]({figure})", ""]
    return "\n".join(parts).rstrip() + "\n"


def figures(results: Sequence[Result], *, folder: str) -> dict[str, str]:
    """The figures as SVG, by their path relative to the page."""
    names = _names(folder, results)
    return {name: _figure(result) for name, result in zip(names, results, strict=True) if result.rows}


def _figure(result: Result) -> str:
    every = -(-len(result.rows) // MOST_POINTS)
    rows = result.rows[::every]
    unit = f", {result.unit}" if result.unit else ""
    return scatter(
        [(row.measured, row.simulated, row.held_out) for row in rows],
        across=f"measured {result.quantity}{unit}",
        up=f"simulated {result.quantity}{unit}",
    )


def _names(folder: str, results: Sequence[Result]) -> list[str]:
    """A file per result, numbered within its data set, so that another data set renames nothing."""
    seen: Counter[str] = Counter()
    names = []
    for result in results:
        seen[result.data_set] += 1
        names.append(f"{folder}/{result.data_set}-{seen[result.data_set]}.svg")
    return names


def _text(words: str) -> str:
    """Text escaped for Markdown, also within a table."""
    return words.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
