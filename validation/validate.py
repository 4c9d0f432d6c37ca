"""`make validate`: compare the simulation with measured data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError
from validation.result import Measure, Result, Skipped


@dataclass(frozen=True, slots=True)
class Validation:
    """Every result, in order."""

    results: tuple[Result, ...]
    skipped: tuple[Skipped, ...] = ()
    """Data sets that were not compared, and why."""

    @property
    def damaged(self) -> tuple[Skipped, ...]:
        """Data sets whose files exist but can't be used."""
        return tuple(data_set for data_set in self.skipped if data_set.damaged)

    @property
    def missed(self) -> tuple[Measure, ...]:
        """Measures that miss their targets."""
        return tuple(measure for result in self.results for measure in result.missed)

    def to_json(self) -> dict[str, Any]:
        """Everything, rows and targets included."""
        return {
            "results": [_result(result) for result in self.results],
            "missed": len(self.missed),
            "skipped": self.skipped,
        }


def validate(
    data: Path,
    only: Sequence[str] = (),
    *,
    engines: bool = False,
    write: Path | None = None,
    seen: Callable[[Result | Skipped], None] | None = None,
) -> Validation:
    """Compare the simulation with measured data.

    Args:
        data: The folder with the data.
        only: Names of data sets; empty: all.
        engines: Language-model engines instead of the parts of the simulation.
        write: Path of the page, a Markdown file; its figures go into a folder beside it.
        seen: Called with each result and each skipped data set.

    Raises:
        DataError: There is no such folder or data set, none of the data is in it, or a named data set is absent or
            damaged.
    """
    from validation.runner import DATA_SETS, ENGINE_DATA_SETS, run

    results: list[Result] = []
    skipped: list[Skipped] = []
    for result in run(data, only, ENGINE_DATA_SETS if engines else DATA_SETS):
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            results.append(result)
        if seen is not None:
            seen(result)
    validation = Validation(tuple(results), tuple(skipped))
    try:
        if write is not None:
            _write(validation, write, engines=engines)
    except OSError as problem:
        raise CotenantError(
            f"can't write {problem.filename}: {problem.strerror}", hint="choose a writable folder"
        ) from None
    return validation


def _write(validation: Validation, page: Path, *, engines: bool) -> None:
    from validation.page import ENGINES, PARTS, figures, markdown

    folder = None if engines else page.stem  # a hundred thousand kernels are no figure
    page.parent.mkdir(parents=True, exist_ok=True)
    if folder is not None:
        (page.parent / folder).mkdir(exist_ok=True)
        for name, svg in figures(validation.results, folder=folder).items():
            (page.parent / name).write_text(svg, encoding="utf-8")
    text = markdown(validation.results, validation.skipped, folder=folder, head=ENGINES if engines else PARTS)
    page.write_text(text, encoding="utf-8")


def _result(result: Result) -> dict[str, Any]:
    return {
        "data_set": result.data_set,
        "what": result.what,
        "source": result.source,
        "split": result.split,
        "n": result.n,
        "n_held_out": result.n_held_out,
        "measures": [_measure(measure) for measure in result.measures],
        "quantity": result.quantity,
        "unit": result.unit,
        "rows": result.rows,
        "notes": result.notes,
        "left_out": result.left_out,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    target = measure.target
    return {
        "name": measure.name,
        "value": measure.value,
        "unit": measure.unit,
        "n": measure.n,
        "measured": measure.measured,
        "fitted": measure.fitted,
        "baselines": measure.baselines,
        "target": None if target is None else {"low": target.low, "high": target.high},
        "reached": measure.reached,
    }
