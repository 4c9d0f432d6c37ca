"""`top`: the state of a running server."""

import json
import urllib.error
import urllib.request
from typing import Any

from cotenant.errors import ServingError
from cotenant.opening import why

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
