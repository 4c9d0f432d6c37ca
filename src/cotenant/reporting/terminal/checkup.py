"""The doctor's findings as a table, and the conclusion."""

from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.devices.protocol import Finding
from cotenant.measure.selftest import SelfTest
from cotenant.text import amount, literal

SYMBOLS = {
    "ok": Text("✓ ok", "green"),
    "note": Text("· note", "cyan"),
    "warning": Text("! warning", "yellow"),
    "problem": Text("✗ problem", "bold red"),
}


def checkup_lines(findings: Sequence[Finding]) -> tuple[RenderableType, ...]:
    """A line per finding with its fix, and a closing line."""
    return _lines(findings), closing(findings)


def done(findings: Sequence[Finding]) -> tuple[RenderableType, ...]:
    """The doctor's actions, one line each."""
    return (_lines(findings),) if findings else (Text("nothing to do"),)


def _lines(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(literal(finding.text))
        if finding.fix:
            text.append(f"\nfix: {literal(finding.fix, keep=chr(10))}", "cyan")
        table.add_row(SYMBOLS[finding.state], Text(literal(finding.subject)), text)
    return table


def closing(findings: Sequence[Finding]) -> Text:
    """`ready`, or `not ready` with the number of problems."""
    count = Counter(finding.state for finding in findings)
    warnings = f" ({amount(count['warning'], 'warning')})" if count["warning"] else ""
    if not count["problem"]:
        return Text(f"ready{warnings}", "bold green")
    return Text(f"not ready: {amount(count['problem'], 'problem')}{warnings}", "bold red")


# --- the self-test as a table that can be pasted into a bug report

STYLES = {"ok": "green", "failed": "bold red", "skipped": "cyan"}


def selftest_tables(selftest: SelfTest) -> tuple[RenderableType, ...]:
    """The device, a line per check, and a closing line."""
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("device", Text(literal(selftest.device)))
    for name, value in selftest.facts.items():
        text = "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        head.add_row(name, Text(literal(text, keep="\n")))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in selftest.checks:
        table.add_row(Text(check.state, STYLES[check.state]), Text(literal(check.name)), Text(literal(check.text)))
    count = Counter[str](check.state for check in selftest.checks)
    counts = ", ".join(f"{count[state]} {state}" for state in STYLES if count[state])
    word = "passed" if selftest.passed else "FAILED"
    closing = Text(f"{word}: {counts}, in {selftest.seconds:.0f} s", "bold green" if selftest.passed else "bold red")
    return head, table, closing
