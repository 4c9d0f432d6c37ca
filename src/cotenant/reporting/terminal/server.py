"""The status of a server, as a line and a table."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from cotenant.text import NOTHING, amount, duration, figure, percent

WINDOW = "1min"
_LEFT = ("tenant", "not served")


def status_parts(status: Mapping[str, Any]) -> tuple[Text, Table]:
    """The contents of `/status`."""
    basis = "" if status["basis"] == "measured" else f" ({status['basis']})"
    sharing = f", shared by {status['sharing']}" if status.get("sharing") else ""
    up = float(status["up_s"])
    line = (
        f"{status['device']}{basis}{sharing}, up {duration(up)}, busy {percent(status['busy_s'] / up)}, "
        f"{amount(status['in_flight'], 'request')} in flight{', draining' if status['draining'] else ''}"
    )
    table = Table(box=None, pad_edge=False, title="last minute", title_justify="left")
    for name in ("tenant", "req/s", "in time", "p50 ms", "p90 ms", "p99 ms", "due ms", "queue ms", "share", "device",
                 "not served"):  # fmt: skip
        table.add_column(name, justify="left" if name in _LEFT else "right")
    for one in status["tenants"]:
        table.add_row(*_cells(one, up))
    return Text(line), table


def _cells(one: Mapping[str, Any], up: float) -> list[str]:
    lately = one[WINDOW]
    seconds = max(min(lately["seconds"], up), 1e-9)
    state = "" if one["loaded"] and one["ready"] else " (unloaded)" if not one["loaded"] else " (restarting)"
    shed = ", ".join(f"{why} {count}" for why, count in lately["shed"].items())
    return [
        one["tenant"] + state,
        figure(lately["requests"] / seconds),
        _maybe(lately["attainment"], percent),
        *(_maybe(lately[name], figure) for name in ("p50_ms", "p90_ms", "p99_ms")),
        figure(one["objective_ms"]),
        _maybe(None if one["backlog_s"] is None else 1e3 * one["backlog_s"], figure),
        one.get("part") or _maybe(one["share"], percent),
        percent(lately["device_s"] / seconds),
        shed or NOTHING,
    ]


def _maybe(value: float | None, form: Any) -> str:
    return NOTHING if value is None else str(form(value))
