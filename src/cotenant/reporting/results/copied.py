"""How many copies: the answer, the options, and what speaks against some."""

from cotenant.analyse.copies_answer import CopiesAnswer
from cotenant.analyse.copy_options import CopiesOption
from cotenant.reporting.elements import DataTable, Element, Remark, Sentence, Sentences
from cotenant.text import NOTHING, figure, size, times, with_interval, without_interval

COLUMNS = ("", "copies", "way", "req/s", "against one", "p99 ms", "cores", "memory", "starts")


def copies_elements(answer: CopiesAnswer) -> list[Element]:
    """The answer on one screen."""
    sentences = [*answer.headline, *(sentence for sentence in (answer.limit, answer.cost) if sentence is not None)]
    elements: list[Element] = [Sentence(sentence, "answer") for sentence in sentences]
    if answer.options:
        rows = tuple(_row(option, chosen=option == answer.chosen) for option in answer.options)
        elements.append(DataTable(COLUMNS, rows, numbers=frozenset(COLUMNS) - {"", "way"}, ruled=False))
    tuning = [] if answer.tuning is None or answer.verdict == "no baseline" else [answer.tuning.sentence]
    rest = (*tuning, *answer.rejected, *answer.remarks, *(f"Left out: {count}." for count in answer.left_out))
    if rest:
        elements.append(Sentences(rest, plain=True))
    if answer.simulated:
        elements.append(Remark("Simulated: nothing was started. Intervals include the model's error."))
    return elements


def _row(option: CopiesOption, *, chosen: bool) -> tuple[str, ...]:
    made = option.reliability
    return (
        "→" if chosen else "",
        str(option.copies),
        NOTHING if option.copies == 1 else option.way,
        without_interval(option.throughput_rps),
        times(option.gain),
        with_interval(option.latency_ms["p99"]),
        NOTHING if option.cores is None else figure(option.cores, 2),
        NOTHING if not option.memory_bytes else size(option.memory_bytes),
        f"{made.starts - made.failures} of {made.starts}",
    )
