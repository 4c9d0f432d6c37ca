"""Infeasible tenants, found before the first trial from the time of each tenant's request alone. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from cotenant.study.model import Study
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import objective_for
from cotenant.workloads.protocol import in_steps
from cotenant.workloads.servers.names import is_server


def demanding(study: Study) -> tuple[str, ...]:
    """Tenants with a rate or a latency limit: for the others `impossible` needs no time of a request."""
    return tuple(name for name in study.measured() if _loads(study, name) or _limit_s(study, name) is not None)


def _loads(study: Study, name: str) -> Sequence[tuple[Load, float]]:
    """Loads with a rate, which a tenant that takes one request at a time may not keep up with, and their rates."""
    entry = study.tenants[name]
    if is_server(entry.workload or "") or in_steps(entry.spec()):
        return ()
    loads = study.loads if entry.arrivals is None else (entry.arrivals,)
    return [(load, load.rate_rps) for load in loads if load.rate_rps is not None]


def _limit_s(study: Study, name: str) -> float | None:
    objective = objective_for(study.tenants[name].slo, "latency")
    return None if objective is None else objective.limit_ms / 1e3


def impossible(study: Study, alone_s: Mapping[str, float]) -> Iterator[str]:
    """One sentence for each tenant that can't keep up with its load, or can't meet its objective, even alone.

    Args:
        study: What to measure.
        alone_s: Seconds of a request alone, by tenant; tenants without one are skipped.
    """
    for name in study.measured():
        if name not in alone_s:
            continue
        request_s, limit_s = alone_s[name], _limit_s(study, name)
        for load, rate_rps in _loads(study, name):
            busy = rate_rps * request_s
            if busy > 1:
                yield (
                    f"{name} can't keep up with {load} even alone: at {_time(request_s)} a request it would be "
                    f"busy for {busy:.2g} s of every second."
                )
        if limit_s is not None and limit_s < request_s:
            yield (
                f"{name} can't meet its objective even alone: the limit is {_time(limit_s)}, and a "
                f"request takes {_time(request_s)}."
            )


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
