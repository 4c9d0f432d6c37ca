"""Activity of the device by mix, with the sources of its columns."""

from collections.abc import Sequence
from typing import Any

from cotenant.analyse.device_use import DeviceUse, MixReading
from cotenant.analyse.sharing import settings_said
from cotenant.reporting.elements import DataTable, Element, Remark, Value, grouped
from cotenant.text import NOTHING, figure, percent


def _gibibytes(value: float) -> str:
    return figure(value / 2**30)


COLUMNS = (
    ("power W", "power_w", figure),
    ("SM clock MHz", "sm_clock_mhz", figure),
    ("°C", "temperature_c", figure),
    ("throttled", "throttled_share", percent),
    ("SM", "sm_active", percent),
    ("tensor", "tensor_active", percent),
    ("DRAM", "dram_active", percent),
    ("memory GiB", "memory_used_bytes", _gibibytes),
    ("J/request", "energy_per_request_j", figure),
)
"""Heading, quantity and formatter."""
LEFT_OUT_FIRST = ("temperature_c", "memory_used_bytes", "tensor_active")
"""Dropped first on a narrow page."""


def device_elements(uses: Sequence[DeviceUse]) -> list[Element]:
    """A table of the columns that have values, and their sources below."""
    columns = shown_columns(uses)
    if not columns:
        return []
    fewer = [column for column in columns if column[1] not in LEFT_OUT_FIRST]
    return [_device_table(uses, columns, _device_table(uses, fewer)), Remark(sources_sentence(uses))]


def _device_table(
    uses: Sequence[DeviceUse], columns: Sequence[tuple[str, str, Any]], narrow: DataTable | None = None
) -> DataTable:
    several = len({use.device for use in uses}) > 1
    rows: list[tuple[str, tuple[Value, ...]]] = []
    for use in uses:
        settings = "" if use.cell.settings == "{}" else settings_said(use.cell.settings)
        where = ", ".join(part for part in (use.device if several else "", settings) if part)
        rows.append((where, (f"{use.cell.mix}, {use.cell.sharing}", *cells(use, columns))))
    return grouped(("the device under", *(label for label, _, _ in columns)), rows, narrow)


def shown_columns(uses: Sequence[DeviceUse]) -> list[tuple[str, str, Any]]:
    """Columns with a value in any row."""
    return [column for column in COLUMNS if any(getattr(use, column[1]) is not None for use in uses)]


def cells(use: DeviceUse, columns: Sequence[tuple[str, str, Any]]) -> list[str]:
    """A row's values as text, marking inaccurate ones."""
    written = []
    for _, name, form in columns:
        reading: MixReading | None = getattr(use, name)
        if reading is None:
            written.append(NOTHING)
        else:
            off = "" if reading.uncertainty is None else f" ± {form(reading.uncertainty)}"
            written.append(form(reading.value) + off)
    return written


def sources_sentence(uses: Sequence[DeviceUse]) -> str:
    """Sources of the columns, and why one is missing."""
    sources: dict[str, set[str]] = {}
    for use in uses:
        for label, name, _ in COLUMNS:
            if (reading := getattr(use, name)) is not None:
                sources.setdefault(label, set()).add(reading.source)
    labels: dict[str, list[str]] = {}
    for label, origins in sources.items():
        labels.setdefault(", ".join(sorted(origins)), []).append(label)
    listed = "; ".join(f"{', '.join(names)}: {source}" for source, names in labels.items())
    refused = list(dict.fromkeys(use.no_energy for use in uses if use.no_energy))
    return f"sources: {listed}" + (f"; no J/request: {refused[0]}" if refused else "")
