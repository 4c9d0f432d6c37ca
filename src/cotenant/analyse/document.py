"""The JSON document of a result."""

from typing import Any

from cotenant.analyse.plain import plain
from cotenant.tenancy.records import SCHEMA_VERSION


def document(**fields: Any) -> dict[str, Any]:
    """These fields as plain data, stable within the schema version they are preceded by."""
    return {"schema_version": SCHEMA_VERSION} | {name: plain(value) for name, value in fields.items()}
