"""Authorisation: no access without a key, a tenant's key for its model, the admin's key for everything."""

from cotenant.serving.http.keys import opens
from cotenant.serving.http.problems import Status
from cotenant.serving.service import Service


def locked(service: Service) -> bool:
    """Whether any tenant has a key."""
    for one in service.tenants.values():  # noqa: SIM110 - asked for each request: a generator would cost more
        if one.key:
            return True
    return False


def check_stranger(service: Service, key: str | None) -> None:
    """Reject an unknown key. Raises Status."""
    if locked(service) and not opens(key, service.admin_key, *(one.key for one in service.tenants.values())):
        raise Status(401, "A valid API key is required.", hint="Send `Authorization: Bearer KEY`.")


def check_admin(service: Service, key: str | None) -> None:
    """Reject all but the admin, if there are keys. Raises Status."""
    if (service.admin_key is not None or locked(service)) and not opens(key, service.admin_key):
        raise Status(403, "The admin's key is required.", hint="The file's `admin_key` holds its hash.")


def check_tenant(service: Service, key: str | None, name: str | None) -> None:
    """Reject a key that isn't valid for this model. Raises Status."""
    served = service.tenants.get(name) if name is not None else None
    if served is not None and served.key is not None and not opens(key, served.key, service.admin_key):
        raise Status(403, f"This key doesn't open {served.name}.")
