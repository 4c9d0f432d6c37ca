"""Sweeps over clocks and power limits, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.dvfs import Sweep, sentence
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.text import figure

_UNITS = {"clock_mhz": "MHz", "power_w": "W"}
_TITLES = {"clock_mhz": "by clock", "power_w": "by power limit"}


def dvfs_parts(found: Sequence[Sweep]) -> tuple[RenderableType, ...]:
    """One table per job, from no limit to the lowest, then a sentence each."""
    if not found:
        return ()
    parts: list[RenderableType] = []
    for sweep in found:
        on = f" on {sweep.devices} devices" if sweep.devices > 1 else ""
        rows = [
            (
                "no limit" if step.value is None else f"{step.value:.0f} {_UNITS[sweep.control]}",
                figure(step.clock_mhz),
                figure(step.time_ms),
                figure(step.power_w),
                figure(step.energy_j) + (" least" if step is sweep.best else ""),
                step.readings,
            )
            for step in sweep.steps
        ]
        parts += [
            Text(literal(f"{sweep.job} {_TITLES[sweep.control]}{on}"), "bold"),
            listing(("set", "clock MHz", "ms", "W", "J/request", "trials"), rows),
        ]
    return (*parts, sentence_list([sentence(sweep) for sweep in found]))
