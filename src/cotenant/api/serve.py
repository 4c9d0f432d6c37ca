"""`serve`: several models on a device, each with an objective."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import ServingError
from cotenant.opening import why
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.fleet.serving import OnCluster, Opened
    from cotenant.planning.check import Checked
    from cotenant.serving.server import Listening
    from cotenant.serving.service import Service
    from cotenant.serving.tenants_file import TenantsFile


def serve(
    tenants: AnyPath,
    *,
    device: str | None = None,
    listening: "Listening | None" = None,
    ready: Callable[[str, "Service"], None] = lambda address, _: print(address),  # noqa: T201
    ended: Callable[["Service"], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the tenants of a file until SIGTERM or Ctrl-C; then finish accepted requests.

    Args:
        tenants: A tenants file, or a plan.
        device: Overrides the file's device; for a plan, selects among its devices.
        listening: Address to listen on; 127.0.0.1:8700 by default.
        ready: Called with the address once requests are accepted.
        ended: Called at the end, when everything was answered and recorded.
        say: Called with the expected traffic of each tenant.

    Raises:
        CotenantError: The file is wrong, a tenant can't be served, or the extra packages aren't installed.
    """
    import asyncio
    from dataclasses import replace

    from cotenant.reporting.browser import live_page
    from cotenant.serving.server import Listening, serve
    from cotenant.serving.tenants_file import read_tenants
    from cotenant.tenancy.tenant_entry import demands

    tenants = Path(tenants)
    _require_packages()
    import uvloop

    file = read_tenants(tenants, device)
    _require_models(file)
    for line in demands(file.tenants):
        say(line)
    for name in file.jobs:
        say(f"{name} is a job: the plan has it run beside the server, which doesn't start it")
    where = listening or Listening()
    if where.page is None:
        where = replace(where, page=live_page())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(file, where, ready=ready, again=lambda: read_tenants(tenants, device), ended=ended))


def serve_on_cluster(
    tenants: AnyPath,
    where: "OnCluster",
    *,
    listening: "Listening | None" = None,
    ready: "Callable[[Opened], None]" = lambda opened: print(*opened.urls.values()),  # noqa: T201
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a plan on the devices of a cluster until SIGTERM or Ctrl-C; then finish accepted requests.

    Args:
        tenants: A plan; or a tenants file: every device serves all of its tenants.
        where: The cluster and its devices.
        listening: Address of the front ends; 127.0.0.1:8700 on every node by default.
        ready: Called with the addresses once requests are accepted.
        say: Gets a sentence about each change: lost devices, new owners, missing headroom.

    Raises:
        CotenantError: The file is wrong, a tenant can't be served, or the cluster lacks a device.
    """
    from cotenant.fleet.serving import serve
    from cotenant.serving.server import Listening

    _require_packages()
    serve(Path(tenants), where, listening or Listening(), ready=ready, say=say)


def _require_packages() -> None:
    from cotenant.errors import ServingError

    try:
        import uvloop  # noqa: F401
    except ImportError as error:
        raise ServingError(
            f"The server needs the package {error.name}.", hint="Install it: pip install 'cotenant[serve]'"
        ) from None


def _require_models(file: "TenantsFile") -> None:
    """Refuse models that can't be built here, before workers start."""
    from cotenant.workloads.catalogue import require_packages

    if not file.device.startswith("sim:"):
        for tenant in file.tenants.values():
            if tenant.workload is not None:
                require_packages(tenant.workload)


def promise(
    tenants: AnyPath,
    *,
    device: str | None = None,
    seconds: float = 30.0,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> "Checked":
    """Simulate the objectives of a file or plan under its stated loads, as `check_plan` does for the same sharing.

    Where requests take turns, and on a real device, the scheduler that serves orders them.

    Args:
        tenants: The YAML file, or a plan; each tenant states its `load`.
        device: Overrides the file's device.
        seconds: The least time that the scheduler's order is simulated for.
        seed: Of the scheduler's arrivals.
        say: Called with the expected traffic of each tenant.

    Raises:
        CotenantError: The file is wrong, a tenant states no load, or a tenant can't be served.
    """
    from cotenant.serving.dry_run import simulate_contracts
    from cotenant.serving.tenants_file import read_tenants
    from cotenant.tenancy.tenant_entry import demands

    tenants = Path(tenants)
    file = read_tenants(tenants, device)
    _require_models(file)
    for line in demands(file.tenants):
        say(line)
    return simulate_contracts(file, seconds=seconds, seed=seed)


# --- `top`: the state of a running server

ADDRESS = "http://127.0.0.1:8700"
LARGEST = 4 * 2**20


def top(address: str = ADDRESS, *, key: str | None = None, within_s: float = 5.0) -> dict[str, Any]:
    """Status of the server at an address: tenants, rates, attainment, refusals.

    Args:
        address: As printed by `cotenant serve`.
        key: The admin key, if the server has keys.
        within_s: Timeout in seconds.

    Raises:
        ServingError: There is no answer, the key is wrong, or it isn't a cotenant server.
    """
    if not address.startswith(("http://", "https://")):
        raise ServingError(f"{address} isn't an address.", hint=f"As `cotenant serve` prints it: {ADDRESS}")
    request = urllib.request.Request(  # noqa: S310 - http and https only, checked above
        address.rstrip("/") + "/status", headers={"x-api-key": key} if key else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=within_s) as answer:  # noqa: S310
            status: dict[str, Any] = json.loads(answer.read(LARGEST))
    except urllib.error.HTTPError as error:
        needs = error.code in (401, 403)
        raise ServingError(
            f"The server at {address} answers {error.code}.",
            hint="Give the admin's key: COTENANT_KEY=... cotenant top" if needs else "Is it a cotenant server?",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = why(reason) if isinstance(reason, OSError) else reason
        raise ServingError(
            f"There is no answer from {address}: {reason}.", hint="Start one: cotenant serve tenants.yaml"
        ) from None
    if not isinstance(status, dict) or "tenants" not in status:
        raise ServingError(f"{address} isn't a cotenant server.")
    return status
