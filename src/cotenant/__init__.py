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
    "batch": "batch:batch",
    "compare": "compare:compare",
    "db_add": "db:db_add",
    "db_anomalies": "db:db_anomalies",
    "db_compare_sensors": "db:db_compare_sensors",
    "db_contents": "db:db_contents",
    "db_gpu": "db:db_gpu",
    "db_gpus": "db:db_gpus",
    "db_report": "db:db_report",
    "db_sensors": "db:db_sensors",
    "db_trend": "db:db_trend",
    "doctor": "doctor:doctor",
    "doctor_fix": "doctor:doctor_fix",
    "doctor_restore": "doctor:doctor_restore",
    "dry_run": "run:dry_run",
    "export": "export:export",
    "explain": "explain:explain",
    "explain_metric": "explain:explain_metric",
    "list_devices": "lists:devices",  # `cotenant.devices` is the package of that name
    "list_kernels": "kernels:kernels",
    "list_studies": "lists:studies",
    "list_workloads": "lists:workloads",
    "compare_policies": "plan:compare_policies",
    "plan_jobs": "plan:plan_jobs",
    "profile": "profile:profile",
    "run": "run:run",
    "save_baseline": "compare:save_baseline",
    "schema": "schema:schema",
    "search_models": "search:search",  # `cotenant.ranking` is the package of that name
    "selftest": "selftest:selftest",
    "serve": "serve:serve",
    "serve_dry_run": "serve:promise",
    "server_status": "top:server_status",
    "show": "show:show",
    "show_device": "show:show_device",
    "show_search_results": "show:show_search_results",
    "show_sweeps": "show:show_sweeps",
    "sql": "sql:sql",
    "verify": "verify:verify",
    "view_runs": "view:view",  # `cotenant.reporting.browser` is the package of that name
    "write_report": "report:report",  # `cotenant.report` is the package of that name
}

_CLASSES = {"Scheduler": "cotenant.serving.library"}

__all__ = ["__version__", *_CLASSES, *_VERBS]  # noqa: PLE0604 - the names are strings, the checker can't see it


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        module, _, function = _VERBS[name].partition(":")
        return getattr(import_module(f"cotenant.api.{module}"), function)
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    raise AttributeError(f"module 'cotenant' has no attribute {name!r}")
