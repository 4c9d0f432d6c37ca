"""Result files of the original model-search study: times per stage, by model and batch size, as JSON.

    {"git-hash": "", "args": "...", "measurements": {"resnet18": {"128": {
        "load_data": [0.71, 0.01, ...], "data_to_device": [...], "inference": [...], "end_to_end": 5.0}}}}

`args` is the repr of a Python object; it is kept as text and never evaluated.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cotenant import opening
from cotenant.errors import DataError
from cotenant.store.imports.result import Skipped, nothing_in
from cotenant.tenancy.records import Columns

END_TO_END = "end_to_end"
_KNOWN = {"calc_proxy_score": "score", "load_state_dict": "load_model"}
"""Stages with a different name here; the others are the same."""


LARGEST = 256 << 20
"""Maximum bytes of a result file."""


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """A model at a batch size."""

    model: str
    batch: int
    batches: int
    stage_s: Mapping[str, float]
    """Sum over the batches, seconds."""
    first_s: Mapping[str, float]
    """The part in the first batch."""
    end_to_end_s: float | None

    @property
    def overlap_s(self) -> float | None:
        """How much longer the stages took in total than end to end: concurrent work."""
        return None if self.end_to_end_s is None else sum(self.stage_s.values()) - self.end_to_end_s

    @property
    def bottleneck(self) -> str:
        """The longest stage."""
        return max(self.stage_s, key=lambda stage: self.stage_s[stage])


@dataclass(frozen=True, slots=True)
class SearchJson:
    """A complete file."""

    path: Path
    cells: tuple[ModelTimes, ...]
    stages: Columns
    """As in the table `stages` of a run: tenant (model and batch), seq (index of the batch), stage, duration_ns."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts stated by the file: git hash, arguments, system."""
    skipped: tuple[Skipped, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data: a row per model and batch size."""
        return {
            "path": str(self.path),
            "facts": dict(self.facts),
            "cells": [
                {**asdict(cell), "overlap_s": cell.overlap_s, "bottleneck": cell.bottleneck} for cell in self.cells
            ],
            "skipped": [asdict(problem) for problem in self.skipped],
        }


def recognise(path: Path) -> bool:
    """Whether the file is of this kind."""
    try:
        return isinstance(_document(path).get("measurements"), dict)
    except DataError:
        return False


def read(path: Path, *, skip_bad: bool = False) -> SearchJson:
    """Every model and batch size of a file. Raises DataError; bad cells are skipped and counted only on request."""
    document = _document(path)
    measurements = document.get("measurements")
    if not isinstance(measurements, dict):
        raise DataError(f"{path} has no key 'measurements'.", hint="it is not a result of the model-search study")
    cells: list[ModelTimes] = []
    rows: list[tuple[str, int, str, int]] = []
    bad: list[str] = []
    for model, batch, given in _pairs(measurements):
        wrong = _wrong(batch, given)
        if wrong is not None:
            bad.append(f"{model}, batch {batch}: {wrong}")
            continue
        cell, more = _cell(model, int(batch), given)
        cells.append(cell)
        rows += more
    if bad and not skip_bad:
        more_bad = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise DataError(f"{path}: {bad[0]}{more_bad}, so nothing was imported.", hint="fix the file, or add --skip-bad")
    if not cells:
        raise nothing_in(path, "measurements of a model")
    facts = {key: value for key, value in document.items() if key != "measurements"}
    skipped = (Skipped(bad[0], len(bad), ()),) if bad else ()
    return SearchJson(path, tuple(cells), _columns(rows), facts, skipped)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(opening.read_text(path, most=LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} can't be read as JSON: {error}", hint="is it whole?") from error
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a JSON object.", hint="it is not a result of the model-search study")
    return document


def _pairs(measurements: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for model, sizes in measurements.items():
        if not isinstance(sizes, dict):
            yield model, "?", None
            continue
        for batch, given in sizes.items():
            yield model, batch, given


def _wrong(batch: str, given: Any) -> str | None:
    """What is wrong with a cell; None if nothing."""
    if not batch.isdecimal() or int(batch) < 1 or not isinstance(given, dict):
        return "is not a batch size with stages"
    lists = {stage: times for stage, times in given.items() if stage != END_TO_END}
    if not lists or not all(isinstance(times, list) and times for times in lists.values()):
        return "a stage has no times"
    if not all(_is_time(time) for times in lists.values() for time in times):
        return "a time is not a number of seconds"
    if END_TO_END in given and not _is_time(given[END_TO_END]):
        return "end_to_end is not a number of seconds"
    return None


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _cell(model: str, batch: int, given: Mapping[str, Any]) -> tuple[ModelTimes, list[tuple[str, int, str, int]]]:
    lists = {_KNOWN.get(stage, stage): times for stage, times in given.items() if stage != END_TO_END}
    tenant = f"{model} batch {batch}"
    rows = [
        (tenant, number, stage, round(time * 1e9))
        for stage, times in lists.items()
        for number, time in enumerate(times)
    ]
    cell = ModelTimes(
        model=model,
        batch=batch,
        batches=max(len(times) for times in lists.values()),
        stage_s={stage: float(sum(times)) for stage, times in lists.items()},
        first_s={stage: float(times[0]) for stage, times in lists.items()},
        end_to_end_s=float(given[END_TO_END]) if END_TO_END in given else None,
    )
    return cell, rows


def _columns(rows: list[tuple[str, int, str, int]]) -> Columns:
    tenants, numbers, stages, durations = zip(*rows, strict=True)
    return {
        "tenant": np.array(tenants, dtype=object),
        "seq": np.array(numbers, np.int64),
        "stage": np.array(stages, dtype=object),
        "duration_ns": np.array(durations, np.int64),
    }
