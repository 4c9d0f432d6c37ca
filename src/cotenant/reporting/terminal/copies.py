"""How many copies: the answer, the options, and what speaks against some."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.copies import CopiesAnswer
from cotenant.analyse.copy_options import CopiesOption
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, figure, size, times, with_interval, without_interval


def copies_parts(answer: CopiesAnswer) -> tuple[RenderableType, ...]:
    """The answer on one screen."""
    sentences = [*answer.headline, *(sentence for sentence in (answer.limit, answer.cost) if sentence is not None)]
    parts: list[RenderableType] = [Text("\n".join(map(literal, sentences)), "bold")]
    if answer.options:
        parts.append(_table(answer))
    tuning = [] if answer.tuning is None or answer.verdict == "no baseline" else [answer.tuning.sentence]
    rest = [*tuning, *answer.rejected, *answer.remarks, *(f"Left out: {count}." for count in answer.left_out)]
    if rest:
        parts.append(Text("\n".join(map(literal, rest))))
    if answer.simulated:
        parts.append(Text("Simulated: nothing was started. Intervals include the model's error.", "dim"))
    return tuple(parts)


def _table(answer: CopiesAnswer) -> Table:
    table = Table(box=None, pad_edge=False)
    names = ["", "copies", "way", "req/s", "against one", "p99 ms", "cores", "memory", "starts"]
    for name in names:
        table.add_column(name, justify="left" if name in {"", "way"} else "right")
    for option in answer.options:
        table.add_row(*map(literal, _row(option, chosen=option == answer.chosen)))
    return table


def _row(option: CopiesOption, *, chosen: bool) -> list[str]:
    made = option.reliability
    return [
        "→" if chosen else "",
        str(option.copies),
        NOTHING if option.copies == 1 else option.way,
        without_interval(option.throughput_rps),
        times(option.gain),
        with_interval(option.latency_ms["p99"]),
        NOTHING if option.cores is None else figure(option.cores, 2),
        NOTHING if not option.memory_bytes else size(option.memory_bytes),
        f"{made.starts - made.failures} of {made.starts}",
    ]
