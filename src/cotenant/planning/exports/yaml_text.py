"""Plain data as YAML text."""

from collections.abc import Sequence
from typing import Any

import yaml


def documents(data: Sequence[Any]) -> str:
    """Several documents in one text."""
    return yaml.safe_dump_all(data, sort_keys=False, allow_unicode=True, width=100, explicit_start=True)


def document(data: Any) -> str:
    """One document."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
