"""cotenant: should these workloads share an accelerator, how, and at what cost?

The verbs of the command line are functions here, loaded when they are first used::

    import cotenant
    result = cotenant.run("quick")
    print(result.summary.to_json())
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_VERBS = {
    "devices": "lists",
    "doctor": "doctor",
    "dry_run": "run",
    "export": "export",
    "run": "run",
    "schema": "schema",
    "show": "show",
    "sql": "sql",
    "studies": "lists",
    "workloads": "lists",
}

__all__ = ["__version__", *_VERBS]  # noqa: PLE0604 - the names are strings, the checker can't see it


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(import_module(f"cotenant.verbs.{_VERBS[name]}"), name)
    raise AttributeError(f"module 'cotenant' has no attribute {name!r}")
