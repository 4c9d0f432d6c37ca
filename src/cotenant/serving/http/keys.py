"""API keys: random, shown once, stored as hashes, compared in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping

PREFIX = "sha256:"


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
