"""Forecast of a study before it starts."""

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.grouped import listing
from cotenant.study.run_forecast import Forecast, MixMemory
from cotenant.text import duration, literal, percent, ratio, size

MOST_MIXES = 12
"""The largest needs matter; a matrix may have a hundred mixes."""


def forecast_tables(forecast: Forecast) -> tuple[RenderableType, ...]:
    """Trials and time in two lines, then memory by mix, largest first."""
    trials = _span(f"{forecast.trials_min:,}", f"{forecast.trials_max:,}")
    blocks = _span(str(forecast.blocks_min), str(forecast.blocks_max))
    time = _span(duration(forecast.seconds_min), duration(forecast.seconds_max))
    plan = f"{_counted(trials, 'trial')}: {_counted(blocks, 'block')} of {forecast.trials_per_block}"
    if forecast.calibrations:
        plan += f", after {_counted(str(forecast.calibrations), 'measurement')} of capacity"
    head = Text.assemble(
        (literal(f"{forecast.study} on {forecast.device}"), "bold"),
        (" SIMULATED" if forecast.simulated else "", "bold magenta"),
        f"\n{plan}\n{_clock(time, forecast)}{_width(forecast)}\n{size(forecast.memory_bytes)} of memory free",
        *(f"\nleft out: {literal(sentence)}" for sentence in forecast.left_out),
        *((f"\n{literal(sentence)}", "yellow") for sentence in forecast.problems),
        *(f"\nnot checked: {literal(sentence)}" for sentence in forecast.unchecked),
    )
    shown = forecast.memory[:MOST_MIXES]
    rows = [(mix.mix, _need(mix), mix.biggest, "yes" if mix.fits else "NO") for mix in shown]
    table = listing(("mix", "memory needed", "largest tenant", "fits"), rows)
    more = len(forecast.memory) - len(shown)
    return (head, table, Text(f"and {more} mixes that need less", "dim")) if more else (head, table)


def _counted(number: str, noun: str) -> str:
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def _clock(time: str, forecast: Forecast) -> str:
    if forecast.simulated:
        wall = f"about {duration(forecast.wall_s)} to compute" if forecast.wall_s else "computing it is usually faster"
        return f"{time} on the simulated clock; {wall}"
    window = f"windows of {duration(forecast.window_s)}" if forecast.window_s else "windows as short as tenants allow"
    return f"{time} of measuring, {window}; plus the time to start the tenants"


def _width(forecast: Forecast) -> str:
    if forecast.widest is None:
        return ""
    width = f"±{percent(forecast.widest)}" if forecast.widest < 1 else f"a factor of {ratio(1 + forecast.widest)}"
    return f"\nslowdowns good to about {width}, {literal(forecast.widest_from)}"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _need(mix: MixMemory) -> str:
    return f"at least {size(mix.needed_bytes)}" if mix.unknown else size(mix.needed_bytes)
