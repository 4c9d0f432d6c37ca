"""What a study will take, before anything is started."""

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.study.forecast import Forecast, MixMemory
from cotenant.text import duration, size

MOST_MIXES = 12
"""The largest needs are what matters; a matrix may have a hundred mixes."""


def forecast_tables(forecast: Forecast) -> tuple[RenderableType, ...]:
    """Trials and time in two lines, then the memory by mix, largest first."""
    trials = _span(f"{forecast.trials_min:,}", f"{forecast.trials_max:,}")
    blocks = _span(str(forecast.blocks_min), str(forecast.blocks_max))
    time = _span(duration(forecast.seconds_min), duration(forecast.seconds_max))
    plan = f"{_counted(trials, 'trial')}: {_counted(blocks, 'block')} of {forecast.trials_per_block}"
    if forecast.calibrations:
        plan += f", after {_counted(str(forecast.calibrations), 'measurement')} of capacity"
    head = Text.assemble(
        (literal(f"{forecast.study} on {forecast.device}"), "bold"),
        (" SIMULATED" if forecast.simulated else "", "bold magenta"),
        f"\n{plan}\n{_clock(time, simulated=forecast.simulated)}\n{size(forecast.memory_bytes)} of memory free",
        *(f"\nleft out: {literal(sentence)}" for sentence in forecast.left_out),
    )
    shown = forecast.memory[:MOST_MIXES]
    rows = [(mix.mix, _need(mix), mix.biggest, "yes" if mix.fits else "NO") for mix in shown]
    table = listing(("mix", "memory needed", "largest tenant", "fits"), rows)
    more = len(forecast.memory) - len(shown)
    return (head, table, Text(f"and {more} mixes that need less", "dim")) if more else (head, table)


def _counted(number: str, noun: str) -> str:
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def _clock(time: str, *, simulated: bool) -> str:
    if simulated:
        return f"{time} on the simulated clock; computing it is usually much quicker"
    return f"{time} of measuring; starting the tenants of each trial comes on top"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _need(mix: MixMemory) -> str:
    return f"at least {size(mix.needed_bytes)}" if mix.unknown else size(mix.needed_bytes)
