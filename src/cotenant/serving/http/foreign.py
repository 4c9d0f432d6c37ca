"""Without keys, only clients on this machine are served, and browsers can't be used by other sites to get in."""

from collections.abc import Mapping

from cotenant.serving.http.problems import Status

OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_FOREIGN = ("cross-site", "same-site")


def refuse_foreign_pages(headers: Mapping[str, str], *own: str) -> None:
    """Reject a request from another site's page, by its Origin or by DNS rebinding; ``own``: more names of this server.

    Raises:
        Status: 403 or 421.
    """
    host = headers.get("host")
    names = (*OWN_NAMES, *own)
    if host is not None and host.rpartition(":")[0] not in names and host not in names:
        raise Status(421, f"This server isn't {host[:100]!r}.", hint="Without keys it answers to localhost only.")
    if headers.get("sec-fetch-site") in _FOREIGN:
        raise Status(403, "Pages of other sites can't use this server.", hint="Give its tenants keys.")
