"""Devices side by side, for a terminal: one line per mix, one column per device."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.decision import Choice
from cotenant.analyse.decision.wording import objectives
from cotenant.analyse.findings.devices import SideBySide
from cotenant.analyse.sharing.cells import sharing_said
from cotenant.reporting.terminal.answer import STYLES
from cotenant.reporting.terminal.literal import literal
from cotenant.tenancy.device_name import DeviceName
from cotenant.text import NOTHING, amount, ratio, without_interval

MOST_ROWS = 10
WIDEST_MIX = 26
MARKS = {"share": "share", "apart": "apart", "open": "?"}


def side_by_side_parts(found: SideBySide, *, everything: bool = False) -> tuple[RenderableType, ...]:
    """The decision on each device, mixes by devices, and what did not fit."""
    first, *others = found.said
    parts: list[RenderableType] = [Group(Text(literal(first), "bold"), *(Text(literal(one)) for one in others))]
    rows = found.rows if everything else found.rows[:MOST_ROWS]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("mix", overflow="ellipsis", no_wrap=True, max_width=WIDEST_MIX)
    for device in found.devices:
        table.add_column(literal(DeviceName(device).model), overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(literal(f"{row.mix}{', ' + row.under if row.under else ''}"), *map(_cell, row.choices))
    parts.append(table)
    if more := len(found.rows) - len(rows):
        parts.append(Text(f"and {amount(more, 'more mix', 'more mixes')}: --all shows them", "dim"))
    if found.left_out:
        parts.append(Text("\n".join(map(literal, found.left_out)), "yellow"))
    return tuple(parts)


def _cell(choice: Choice | None) -> Text:
    if choice is None:
        return Text(NOTHING, "dim")
    said = objectives(choice.best)
    kept = f", {said}" if said and said != "all kept" else ""
    done = without_interval(choice.best.gauge, ratio)
    figure = f"{sharing_said(choice.best.cell.sharing)} {done}{'' if choice.best.gauge.est is None else 'x'}"
    return Text(literal(f"{MARKS[choice.verdict]} {figure}{kept}"), STYLES[choice.verdict])
