"""The status of a server, as a line and a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.judged_promises import JudgedPromise
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.promised import judged_elements
from cotenant.text import NOTHING, amount, duration, figure, in_time, milliseconds, percent

if TYPE_CHECKING:
    from cotenant.scheduling import TenantCosts
    from cotenant.serving.service import Service

WINDOW = "1min"
LEAST_UP_S = 60.0
LEAST_MS = 0.001


def status_parts(status: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    """The contents of `/status`: the device, its tenants in the last minute, and promises since the start."""
    simulated = str(status["basis"]).startswith("simulated")
    basis = "" if status["basis"] == "measured" else f" ({status['basis']})"
    sharing = f", shared by {status['sharing']}" if status.get("sharing") else ""
    up = float(status["up_s"])
    line = (
        f"{status['device']}{basis}{sharing}, up {duration(up)}, busy {percent(status['busy_s'] / max(up, 1e-9))}, "
        f"{amount(status['in_flight'], 'request')} in flight{', draining' if status['draining'] else ''}"
    )
    over = f"last minute{'' if up >= LEAST_UP_S else f' (up for {duration(up)})'}"
    table = Table(box=None, pad_edge=False, title=over, title_justify="left", padding=(0, 1, 0, 0))
    without = {tenant for worker in _down(status) for tenant in worker["tenants"]}
    rows = [
        _cells(tenant, up, "backend down" if tenant["tenant"] in without else "restarting")
        for tenant in status["tenants"]
    ]
    # What isn't served is named below: a column for it would leave the others no room.
    for name in ("tenant", "req/s", "in time", "p50 ms", "p90 ms", "p99 ms", "due ms", "queue ms", "share", "device"):
        if name == "tenant":
            table.add_column(name, overflow="ellipsis", no_wrap=True)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    shed = list(filter(None, map(_not_served, status["tenants"])))
    down = [f"{worker['why']}; asked again for {duration(worker['down_s'])}" for worker in _down(status)]
    judged = to_terminal(judged_elements([JudgedPromise.from_json(row) for row in status.get("promises", ())]))
    badge = Text("SIMULATED ", "bold reverse magenta") if simulated else Text("")
    head = badge + Text("\n".join((line, *down, *_gaps(status.get("record")))))
    return (head, table, *([Text("\n".join(shed))] if shed else []), Group(*judged))


def _not_served(tenant: Mapping[str, Any]) -> str:
    shed = ", ".join(f"{why} {count:,}" for why, count in tenant[WINDOW]["shed"].items())
    return f"{tenant['tenant']} not served: {shed}" if shed else ""


def _gaps(record: Mapping[str, Any] | None) -> list[str]:
    """What is missing from the record of served traffic."""
    lines = []
    if record and record["failing"]:
        lines.append(f"requests can't be recorded: {record['failing']}; {record['unwritten']:,} are kept in memory")
    if record and record["missing"]:
        lines.append(f"{amount(record['missing'], 'request')} missing from {record['path']}")
    return lines


def _down(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Backends that don't answer."""
    return [worker for worker in status.get("workers", ()) if worker.get("up") is False]


def opening_lines(service: "Service") -> list[str]:
    """What a server says when it is ready: each tenant's cost and objective."""
    from cotenant.serving.workers import parts_of

    lines = [] if service.grpc is None else [f"gRPC: {service.grpc}"]
    parts = parts_of(service.workers())
    for name, served in service.tenants.items():
        takes = f"{_times(served.costs)} alone"
        takes += f" on {parts[name]}" if name in parts else ""
        due = f"due within {milliseconds(1e3 * served.contract.objective_s)}"
        due += f" and {milliseconds(1e3 * served.contract.per_step_s)} each" if served.contract.per_step_s else ""
        lines.append(f"{name}: {takes}, {due}, in {amount(len(served.costs.chunks), 'chunk')}")
    return lines


def _times(costs: "TenantCosts") -> str:
    """Of a request; of one that generates, until its first token and for each further one."""
    if costs.step is None:
        return milliseconds(1e3 * costs.spaced_s)
    first = sum(chunk.spaced_s for chunk in costs.chunks)
    return f"first token in {milliseconds(1e3 * first)}, then {milliseconds(1e3 * costs.step.p50_s)} each"


def closing_lines(service: "Service") -> list[str]:
    """What a server says when it ends: how each tenant's objective fared, and where the record is."""
    lines = []
    for name in service.tenants:
        figures = service.measures.of(name)
        if not figures.asked:
            lines.append(f"{name}: no requests")
            continue
        not_served = ", ".join(f"{count:,} {why}" for why, count in figures.why.items())
        lines.append(
            f"{name}: {figures.within:,} of {amount(figures.asked, 'request')} in time "
            f"({in_time(figures.within / figures.asked)})" + (f"; not served: {not_served}" if not_served else "")
        )
    record = service.record()
    if record is not None:
        missing = f", {record['missing']:,} missing" if record["missing"] else ""
        lines.append(f"record: {record['path']}, {amount(record['recorded'], 'request')}{missing}")
    return lines


def _cells(tenant: Mapping[str, Any], up: float, not_ready: str) -> list[str]:
    lately = tenant[WINDOW]
    seconds = max(min(lately["seconds"], up), 1e-9)
    state = "" if tenant["loaded"] and tenant["ready"] else " (unloaded)" if not tenant["loaded"] else f" ({not_ready})"
    return [
        tenant["tenant"] + state,
        figure(lately["requests"] / seconds),
        _maybe(lately["attainment"], percent),
        *(_maybe(lately[name], figure) for name in ("p50_ms", "p90_ms", "p99_ms")),
        figure(tenant["objective_ms"]),
        _maybe(None if tenant["backlog_s"] is None else 1e3 * tenant["backlog_s"], _waiting),
        tenant.get("part") or _maybe(tenant["share"], percent),
        percent(lately["device_s"] / seconds),
    ]


def _waiting(value: float) -> str:
    """A time in the queue: less than a microsecond is none."""
    return "0" if value < LEAST_MS else figure(value)


def _maybe(value: float | None, form: Any) -> str:
    return NOTHING if value is None else str(form(value))
