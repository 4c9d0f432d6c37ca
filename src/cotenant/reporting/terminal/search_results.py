"""A result file of the original model-search study, for a terminal: time by stage and model."""

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.store.imports.result import sentence
from cotenant.store.imports.search_json import ModelTimes, SearchJson
from cotenant.text import NOTHING, figure, percent


def search_results_parts(found: SearchJson) -> tuple[RenderableType, ...]:
    """One line per stage, model and batch size, longest first."""
    rows = [
        (*_whose(cell, first=place == 0), stage, figure(seconds), percent(seconds / (sum(cell.stage_s.values()) or 1)))
        for cell in found.cells
        for place, (stage, seconds) in enumerate(sorted(cell.stage_s.items(), key=lambda one: -one[1]))
    ]
    notes = ["Times are seconds over all batches, as in the file, which has no trials, intervals or verdicts."]
    notes += [f"left out: {sentence(one)}" for one in found.skipped]
    return (
        Text(literal(f"{found.path}: result of the original model-search study"), "bold"),
        listing(("model", "batch", "batches", "whole s", "stage", "s", "of the stages"), rows),
        sentence_list(notes),
    )


def _whose(cell: ModelTimes, *, first: bool) -> tuple[str, str, str, str]:
    if not first:
        return "", "", "", ""
    whole = NOTHING if cell.end_to_end_s is None else figure(cell.end_to_end_s)
    return cell.model, str(cell.batch), str(cell.batches), whole
