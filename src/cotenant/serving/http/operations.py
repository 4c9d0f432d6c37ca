"""For operators: the status of each tenant, draining, reloading."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cotenant import __version__
from cotenant.errors import CotenantError
from cotenant.serving.http.messages import HttpRequest, Reply, Status, in_json
from cotenant.serving.service import Service
from cotenant.serving.workers.supervisor import parts_of

WINDOWS_S = {"1min": 60.0, "5min": 300.0, "15min": 900.0}
DRAIN_S = 30.0


async def readiness(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Whether all tenants can be served, and how many can't be and why; no names, as it needs no key."""
    del request, parts
    loaded = [tenant.name for tenant in service.tenants.values() if tenant.loaded]
    ready = service.all_ready()
    body = {
        "ready": ready,
        "draining": service.draining,
        "tenants": len(loaded),
        "tenants_not_ready": sum(not service.ready(name) for name in loaded),
        "backends_down": sum(not worker.get("up", True) for worker in service.workers()),
        "requests_not_recorded": (service.record() or {}).get("missing", 0),
    }
    return in_json(body, 200 if ready else 503)


async def status(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """The data of `cotenant top` and the live page."""
    del request, parts
    return in_json(state_of(service))


async def live_page(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """The live page; it contains no data and polls `/status`."""
    del request, parts
    if service.page is None:
        raise Status(404, "This server has no live page.")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
    headers = {"content-security-policy": policy, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
    return Reply(200, service.page, "text/html; charset=utf-8", headers)


async def front_page(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Leads to the live page or, without one, to the models."""
    del request, parts
    return Reply(307, headers={"location": "/v1/models" if service.page is None else "/ui"})


async def version(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """The version, as vLLM states its own."""
    del service, request, parts
    return in_json({"version": __version__})


async def drain(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Refuse new requests and answer once nothing is in flight, for a preStop hook."""
    del request, parts
    return in_json({"drained": await service.drain(DRAIN_S)})


async def reload(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Reread the file and answer once it is in effect; the old workers finish accepted requests."""
    del request, parts
    if service.reload is None:
        raise Status(404, "This server has no file to reload.")
    try:
        return in_json(await service.reload())
    except Status:
        raise
    except CotenantError as error:
        lines = getattr(error, "problems", ())
        raise Status(409, " ".join((f"{error.message.rstrip('.')}.", *lines)), hint=error.hint) from None


def state_of(service: Service) -> dict[str, Any]:
    """The complete status as plain data."""
    now = time.monotonic()
    standings = {standing.tenant: standing for standing in service.standings()}
    workers = service.workers()
    parts = parts_of(workers)
    tenants = []
    for name, served in service.tenants.items():
        figures, standing = service.measures.of(name), standings.get(name)
        tenants.append(
            {
                "tenant": name,
                "ready": service.ready(name),
                "loaded": served.loaded,
                "objective_ms": 1e3 * served.contract.within_s(served.tokens - 1 if served.signature.decodes else 0),
                "share": standing.share_rate if standing else None,
                "part": parts.get(name),
                "backlog_s": max(0.0, standing.backlog_s) if standing else None,
                "request_cost_ms": 1e3 * standing.request_s if standing else None,
                "served": figures.served,
                "within_objective": figures.within,
                "device_s": figures.device_s,
                "not_served": dict(figures.why),
                **{window: asdict(figures.lately.window(now, length)) for window, length in WINDOWS_S.items()},
                "slots": figures.lately.counts(now),
                "curves": figures.lately.curves(now),
            }
        )
    return {
        "device": service.device,
        "basis": service.basis,
        "up_s": now - service.started,
        "settings": {} if service.file is None else service.file.settings,
        "sharing": None if service.file is None or service.file.sharing is None else str(service.file.sharing),
        "busy_s": service.busy_s,
        "slowdown": service.slowdown,
        "in_flight": service.in_flight,
        "draining": service.draining,
        "workers": workers,
        "record": service.record(),
        "tenants": tenants,
        "promises": service.promises(now),
    }
