"""Recorded arrivals: when requests came and, for language models, the lengths of prompts and answers.

Supported are plain CSV files of arrival times and the public formats of language model traces: Azure's LLM inference
traces (`TIMESTAMP,ContextTokens,GeneratedTokens`), BurstGPT (`Timestamp,...,Request tokens,Response tokens`) and
Mooncake's JSON lines (`timestamp` in ms, `input_length`, `output_length`, `hash_ids`). Anything ambiguous is refused.
"""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import CotenantError

LARGEST_TRACE = 256 << 20
"""Bytes of a file."""
BLOCK_TOKENS = 512
"""Tokens of a prompt for each of Mooncake's `hash_ids`: prompts with the same first ids start with the same text."""
HINT = "give a CSV in UTF-8 with one arrival time per row, or one of the formats in the guide to servers"


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """Arrivals in order."""

    times_s: npt.NDArray[np.float64]
    tokens_in: tuple[int, ...] = ()
    """Tokens of each prompt; empty if the trace only has times."""
    tokens_out: tuple[int, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()
    """The text prefixes of each prompt; empty if unknown."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Columns of a CSV format."""

    time: str
    seconds: Callable[[str], float]
    tokens_in: str
    tokens_out: str


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_FORMS = (
    _Form("TIMESTAMP", _moment, "ContextTokens", "GeneratedTokens"),
    _Form("Timestamp", float, "Request tokens", "Response tokens"),
    _Form("arrival_s", float, "tokens_in", "tokens_out"),
)


def read_trace(path: Path) -> RecordedTrace:
    """Read the arrivals from a file.

    Raises:
        CotenantError: It can't be read, a row lacks its time or its lengths, or the times are not in order.
    """
    try:
        text = opening.read_text(path, most=LARGEST_TRACE, encoding="utf-8-sig")
        trace = _from_lines(path, text) if text.lstrip().startswith("{") else _from_csv(path, text)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = opening.why(error) if isinstance(error, OSError) else str(error)
        raise CotenantError(f"the trace {path} can't be read: {reason}", hint=HINT) from error
    times = trace.times_s
    if times.size < 2 or not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0) or times[-1] <= times[0]:
        raise CotenantError(
            f"the trace {path} needs at least two arrival times, in order, not all the same",
            hint="the column `arrival_s`, or else the first one, is read as seconds",
        )
    return trace


def _from_csv(path: Path, text: str) -> RecordedTrace:
    reader = csv.reader(text.splitlines(keepends=True), skipinitialspace=True)
    rows = [(reader.line_num, row) for row in reader if row and not row[0].startswith("#")]
    names = rows[0][1] if rows else []
    form = next(
        (form for form in _FORMS if form.time in names and {form.tokens_in, form.tokens_out} <= set(names)), None
    )
    if form is not None:
        return _with_lengths(path, rows, form)
    column = names.index("arrival_s") if "arrival_s" in names else 0
    header = 1 if names and not _is_number(names[column]) else 0
    times = []
    for line, row in rows[header:]:
        if column >= len(row) or not _is_number(row[column]):
            raise CotenantError(
                f"the trace {path} has no arrival time in line {line}", hint="give one number of seconds per row"
            )
        times.append(float(row[column]))
    return RecordedTrace(np.asarray(times, np.float64))


def _with_lengths(path: Path, rows: Sequence[tuple[int, list[str]]], form: _Form) -> RecordedTrace:
    names = rows[0][1]
    places = [names.index(name) for name in (form.time, form.tokens_in, form.tokens_out)]
    times, tokens_in, tokens_out = [], [], []
    for line, row in rows[1:]:
        try:
            when, asked, answered = (row[place] for place in places)
            times.append(form.seconds(when))
            tokens_in.append(_length(asked))
            tokens_out.append(_length(answered))
        except (IndexError, ValueError):
            raise CotenantError(
                f"the trace {path} has no {form.time}, {form.tokens_in} and {form.tokens_out} in line {line}", hint=HINT
            ) from None
    return RecordedTrace(np.asarray(times, np.float64), tuple(tokens_in), tuple(tokens_out))


def _from_lines(path: Path, text: str) -> RecordedTrace:
    times, tokens_in, tokens_out, blocks = [], [], [], []
    for line, entry in enumerate(text.splitlines(), start=1):
        if not entry.strip():
            continue
        try:
            arrival: Any = json.loads(entry)
            times.append(float(arrival["timestamp"]) / 1e3)
            tokens_in.append(_length(arrival["input_length"]))
            tokens_out.append(_length(arrival["output_length"]))
            blocks.append(tuple(int(block) for block in arrival.get("hash_ids", ())))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CotenantError(
                f"the trace {path} has no timestamp, input_length and output_length in line {line}", hint=HINT
            ) from None
    return RecordedTrace(np.asarray(times, np.float64), tuple(tokens_in), tuple(tokens_out), tuple(blocks))


def _length(value: Any) -> int:
    """At least 1: a request that failed when recorded still arrived and requested an answer."""
    return max(int(value), 1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
