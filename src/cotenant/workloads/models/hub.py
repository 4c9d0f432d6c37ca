"""Checks within seconds, before a trial starts, whether weights are available from the hub."""

import os
import re
import socket
from urllib.parse import urlparse

from cotenant.errors import WorkloadError

_ID = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_PATIENCE_S = 3.0


def check_hub_id(weights: str) -> None:
    """Refuse a malformed id, or one neither cached here nor reachable."""
    if not _ID.match(weights):
        raise WorkloadError(f"weights {weights!r} is neither a directory nor a hub id", hint="a hub id is owner/name")
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(weights, "config.json"), str) or _by_proxy():
        return
    address = urlparse(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    host = address.hostname or "huggingface.co"
    try:
        socket.create_connection((host, address.port or 443), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise WorkloadError(
            f"weights {weights!r} are neither a directory nor in the local cache, and {host} can't be reached",
            hint="copy the weights here and give their directory, or leave `weights` out for random ones",
        ) from error


def _by_proxy() -> bool:
    """Behind a proxy a direct connection proves nothing."""
    return any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))
