"""The path of a new run, safe for any study name."""

import re
import secrets
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

LONGEST_SLUG = 48


def slug(name: str) -> str:
    """A safe folder name: lower-case letters, digits and single hyphens, never empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:LONGEST_SLUG].strip("-") or "study"


def stamp() -> str:
    """The time to the second and a few random digits: sorts by time and is unique."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def new_run_path(root: Path, study: str) -> Path:
    """A path for a new run of a study: `root/<study>/<time>-<random>`. Creates nothing."""
    return root / slug(study) / stamp()
