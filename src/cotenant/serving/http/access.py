"""Who may use a server: keys, what each of them opens, and without keys only this machine, not pages of other sites.

Keys are random, shown once, stored as hashes and compared in constant time.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cotenant.serving.http.messages import Status

if TYPE_CHECKING:
    from cotenant.serving.service import Service

PREFIX = "sha256:"
OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_OWN_PAGES = ("same-origin", "none")


def new_key() -> tuple[str, str]:
    """A new key and its hash for the file."""
    key = f"ct-{secrets.token_urlsafe(32)}"
    return key, hash_of(key)


def hash_of(key: str) -> str:
    """The stored hash of a key. Keys are long and random, so a plain hash is safe."""
    return PREFIX + hashlib.sha256(key.encode()).hexdigest()


def presented(headers: Mapping[str, str]) -> str | None:
    """The key sent by a client: `Authorization: Bearer ...` or `X-API-Key`."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key else headers.get("x-api-key")


def opens(key: str | None, *hashes: str | None) -> bool:
    """Whether a key matches one of the hashes; compares all of them, in constant time."""
    shown = hash_of(key or "")
    matches = [hmac.compare_digest(shown, known) for known in hashes if known is not None]
    return key is not None and any(matches)


def locked(service: "Service") -> bool:
    """Whether any tenant has a key."""
    for tenant in service.tenants.values():  # noqa: SIM110 - asked for each request: a generator would cost more
        if tenant.key:
            return True
    return False


def check_stranger(service: "Service", key: str | None) -> None:
    """Reject an unknown key. Raises Status."""
    if locked(service) and not opens(key, service.admin_key, *(tenant.key for tenant in service.tenants.values())):
        raise Status(401, "A valid API key is required.", hint="Send `Authorization: Bearer KEY`.")


def check_admin(service: "Service", key: str | None) -> None:
    """Reject all but the admin, if there are keys. Raises Status."""
    if (service.admin_key is not None or locked(service)) and not opens(key, service.admin_key):
        raise Status(403, "The admin's key is required.", hint="The file's `admin_key` holds its hash.")


def check_tenant(service: "Service", key: str | None, name: str | None) -> None:
    """Reject a key that isn't valid for this model. Raises Status."""
    served = service.tenants.get(name) if name is not None else None
    if served is not None and served.key is not None and not opens(key, served.key, service.admin_key):
        raise Status(403, f"This key doesn't open {served.name}.")


def refuse_foreign_pages(headers: Mapping[str, str], *own: str) -> None:
    """Reject a request of another site's page, by its origin or by DNS rebinding; ``own``: more names of this server.

    Raises:
        Status: 403 or 421.
    """
    host = headers.get("host")
    if host is not None and (name := name_of(host)) not in OWN_NAMES and name not in own:
        raise Status(421, f"This server isn't {host[:100]!r}.", hint="Without keys it answers to localhost only.")
    if is_of_another_site(headers):
        raise Status(403, "Pages of other sites can't use this server.", hint="Give its tenants keys.")


def name_of(host: str) -> str:
    """The name in a header `Host`, in lower case and without the port."""
    host = host.lower()
    name, colon, port = host.rpartition(":")
    return name if colon and (not port or port.isdecimal()) else host


def is_of_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that another site's page makes this request.

    `Sec-Fetch-Site` is sent by current browsers, `Origin` also by older ones, though not with every request.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site.lower() not in _OWN_PAGES:
        return True
    return origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()
