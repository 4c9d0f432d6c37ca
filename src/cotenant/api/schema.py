"""`schema`: the JSON Schema of study files, for editors."""

from typing import Any


def schema() -> dict[str, Any]:
    """JSON Schema of a study file."""
    from cotenant.study.schema import json_schema

    return json_schema()
