"""What was watched: the answer, each tenant's figures, and what can't be seen; and the same while it is watched."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.neighbours.watching import (
    CPU_S,
    GPU_S,
    Watched,
    WatchedTenant,
    answer_sentences,
    grant_sentence,
    note_sentences,
)
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, amount, duration, figure, percent

if TYPE_CHECKING:
    from cotenant.measure.watch.session import WatchSession

LATELY_S = 10.0
_WORDS = ("tenant", "software")
_ROLES = ("requests", "latency_s", "latency_count", "token_s", "token_count", "tokens_out", CPU_S, GPU_S)


def watched_parts(watched: Watched) -> tuple[RenderableType, ...]:
    """The result on one screen."""
    opening = Text("\n".join(map(literal, answer_sentences(watched))), "bold")
    grants = [grant_sentence(tenant, grant) for tenant in watched.tenants for grant in tenant.grants]
    rest = [*grants, *note_sentences(watched), *watched.unseen]
    parts: list[RenderableType] = [opening, tenants_table(watched)]
    if rest:
        parts.append(Text("\n".join(map(literal, rest))))
    parts.append(Text(f"Watched for {duration(60 * watched.minutes)} on {literal(watched.device)}; nothing was sent "
                      "but reads of /metrics.", "dim"))  # fmt: skip
    return tuple(parts)


def tenants_table(watched: Watched) -> Table:
    """Figures of each tenant over the watched time."""
    table = Table(box=None, pad_edge=False)
    columns = columns_of(watched)
    for name in columns:
        table.add_column(name, justify="left" if name in _WORDS else "right")
    for row in tenant_rows(watched):
        table.add_row(*(literal(row[name]) for name in columns))
    return table


def columns_of(watched: Watched) -> list[str]:
    """Columns with at least one figure."""
    rows = tenant_rows(watched)
    return [name for name in (rows[0] if rows else {}) if name in _WORDS or any(row[name] != NOTHING for row in rows)]


def tenant_rows(watched: Watched) -> list[dict[str, str]]:
    """The figures of each tenant, as text."""
    return [_row(tenant) for tenant in watched.tenants]


def _row(tenant: WatchedTenant) -> dict[str, str]:
    return {
        "tenant": tenant.tenant,
        "software": tenant.software,
        "requests": NOTHING if tenant.requests is None else f"{tenant.requests:,}",
        "req/s": _figure(tenant.rate_rps),
        "mean ms": _figure(tenant.mean_ms),
        **{f"{name} ms": _figure(tenant.quantiles_ms.get(name)) for name in ("p50", "p95", "p99")},
        "first token ms": _figure(tenant.first_ms),
        "ms/token": _figure(tenant.token_ms),
        "tokens in": _figure(tenant.tokens_in),
        "tokens out": _figure(tenant.tokens_out),
        "cores": _figure(tenant.cores),
        "GPU time": NOTHING if tenant.gpu_share is None else percent(tenant.gpu_share),
    }


def live_parts(session: "WatchSession", watched: Watched | None, since_s: float) -> tuple[RenderableType, ...]:
    """The last seconds, and the answer so far."""
    table = Table(box=None, pad_edge=False, title=f"last {LATELY_S:.0f} s", title_justify="left")
    for name in ("tenant", "req/s", "mean ms", "ms/token", "tokens/s", "cores", "GPU time"):
        table.add_column(name, justify="left" if name in _WORDS else "right")
    for track in session.targets.tracks:
        rates = {role: track.rate(role, LATELY_S) for role in _ROLES}
        gpu = rates[GPU_S]
        table.add_row(
            literal(track.tenant), _figure(rates["requests"]), _mean_ms(rates["latency_s"], rates["latency_count"]),
            _mean_ms(rates["token_s"], rates["token_count"]), _figure(rates["tokens_out"]), _figure(rates[CPU_S]),
            NOTHING if gpu is None else percent(gpu),
        )  # fmt: skip
    head = Text(f"{literal(session.device)}, {amount(len(session.targets.tracks), 'tenant')}, watched for "
                f"{duration(since_s)}; Ctrl-C ends it and shows the answer")  # fmt: skip
    return (head, table, *([_so_far(watched)] if watched is not None else ()))


def _so_far(watched: Watched) -> Text:
    sentences: Sequence[str] = [*answer_sentences(watched), *note_sentences(watched)]
    return Text("so far:\n" + "\n".join(map(literal, sentences)), "dim")


def _mean_ms(time_s: float | None, count: float | None) -> str:
    return NOTHING if time_s is None or not count else figure(1e3 * time_s / count)


def _figure(value: float | None) -> str:
    return NOTHING if value is None else figure(value)
