"""Infeasible tenants, found before the first trial from the time of each tenant's request alone. Pure."""

from collections.abc import Iterator, Mapping

from cotenant.study.model import Study
from cotenant.workloads.servers.names import is_server


def impossible(study: Study, alone_s: Mapping[str, float]) -> Iterator[str]:
    """One sentence for each tenant that can't keep up with its load, or can't meet its objective, even alone.

    Args:
        study: What to measure.
        alone_s: Seconds of a request alone, by tenant; tenants without one are skipped.
    """
    for name in study.measured():
        if name not in alone_s:
            continue
        entry, request_s = study.tenants[name], alone_s[name]
        loads = study.loads if entry.load is None else (entry.load,)
        for load in () if is_server(entry.workload) else loads:
            busy = (load.rate_rps or 0.0) * request_s if load.open else (load.rate_share or 0.0)
            if busy > 1:
                yield (
                    f"{name} can't keep up with {load} even alone: at {_time(request_s)} a request it would be "
                    f"busy for {busy:.2g} s of every second."
                )
        if entry.slo is not None and entry.slo.latency_s is not None and entry.slo.latency_s < request_s:
            yield (
                f"{name} can't meet its objective even alone: the limit is {_time(entry.slo.latency_s)}, and a "
                f"request takes {_time(request_s)}."
            )


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
