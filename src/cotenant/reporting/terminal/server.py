"""How a server stands, as a line and a table."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from cotenant.text import NOTHING, amount, duration, figure, percent

WINDOW = "1min"
WINDOW_S = 60.0
_LEFT = ("tenant", "not served")


def status_parts(told: Mapping[str, Any]) -> tuple[Text, Table]:
    """What `/status` says."""
    basis = "" if told["basis"] == "measured" else f" ({told['basis']})"
    up = float(told["up_s"])
    line = (
        f"{told['device']}{basis}, up {duration(up)}, busy {percent(told['busy_s'] / up)}, "
        f"{amount(told['in_flight'], 'request')} under way{', draining' if told['draining'] else ''}"
    )
    table = Table(box=None, pad_edge=False, title="last minute", title_justify="left")
    for name in ("tenant", "req/s", "in time", "p50 ms", "p90 ms", "p99 ms", "due ms", "queue ms", "share", "device",
                 "not served"):  # fmt: skip
        table.add_column(name, justify="left" if name in _LEFT else "right")
    for one in told["tenants"]:
        table.add_row(*_cells(one, up))
    return Text(line), table


def _cells(one: Mapping[str, Any], up: float) -> list[str]:
    lately = one[WINDOW]
    state = "" if one["loaded"] and one["ready"] else " (unloaded)" if not one["loaded"] else " (restarting)"
    shed = ", ".join(f"{why} {count}" for why, count in lately["shed"].items())
    return [
        one["tenant"] + state,
        figure(lately["requests"] / min(WINDOW_S, max(up, 1e-9))),
        _maybe(lately["attainment"], percent),
        *(_maybe(lately[name], figure) for name in ("p50_ms", "p90_ms", "p99_ms")),
        figure(one["objective_ms"]),
        _maybe(None if one["backlog_s"] is None else 1e3 * one["backlog_s"], figure),
        _maybe(one["share"], percent),
        percent(one["device_s"] / up),
        shed or NOTHING,
    ]


def _maybe(value: float | None, form: Any) -> str:
    return NOTHING if value is None else str(form(value))
