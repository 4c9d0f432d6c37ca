"""API keys: random, shown once, kept as hashes, compared in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping

PREFIX = "sha256:"


def new_key() -> tuple[str, str]:
    """A key, and the hash that goes into the file."""
    key = f"ct-{secrets.token_urlsafe(32)}"
    return key, hash_of(key)


def hash_of(key: str) -> str:
    """What is kept of a key. Keys are long and random, so that a plain hash tells nothing about them."""
    return PREFIX + hashlib.sha256(key.encode()).hexdigest()


def presented(headers: Mapping[str, str]) -> str | None:
    """The key that a client sent: `Authorization: Bearer ...` or `X-API-Key`."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key else headers.get("x-api-key")


def opens(key: str | None, *hashes: str | None) -> bool:
    """Whether a key has one of the hashes; all are compared, so that the time tells nothing."""
    shown = hash_of(key or "")
    matches = [hmac.compare_digest(shown, known) for known in hashes if known is not None]
    return key is not None and any(matches)
