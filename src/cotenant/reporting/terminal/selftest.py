"""The self-test as a table that can be pasted into a bug report."""

from collections import Counter

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.measure.selftest import SelfTest
from cotenant.reporting.terminal.literal import literal

STYLES = {"ok": "green", "failed": "bold red", "skipped": "cyan"}


def selftest_tables(found: SelfTest) -> tuple[RenderableType, ...]:
    """The device, a line per check, and a closing line."""
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("device", Text(literal(found.device)))
    for name, value in found.facts.items():
        text = "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        head.add_row(name, Text(literal(text, keep="\n")))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in found.checks:
        table.add_row(Text(check.state, STYLES[check.state]), Text(literal(check.name)), Text(literal(check.text)))
    count = Counter[str](check.state for check in found.checks)
    counts = ", ".join(f"{count[state]} {state}" for state in STYLES if count[state])
    word = "passed" if found.passed else "FAILED"
    closing = Text(f"{word}: {counts}, in {found.seconds:.0f} s", "bold green" if found.passed else "bold red")
    return head, table, closing
