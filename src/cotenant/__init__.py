"""cotenant: should these workloads share an accelerator, how, and at what cost?

Every verb of the command line is a function here. What they return can be asked further::

    import cotenant

    run = cotenant.run("quick")
    print(run.answer)
    run.report()

The database of all runs is `cotenant.db`, types of results are in `cotenant.types`. Nothing but this file is loaded
until a name is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant import types as types
    from cotenant.api import db as db
    from cotenant.api.batch import batch as batch
    from cotenant.api.calibrate import calibrate as calibrate
    from cotenant.api.calibrate import calibrate_server as calibrate_server
    from cotenant.api.calibrate import predict_server as predict_server
    from cotenant.api.compare import compare as compare
    from cotenant.api.compare import save_baseline as save_baseline
    from cotenant.api.copies import copies as copies
    from cotenant.api.doctor import doctor as doctor
    from cotenant.api.doctor import selftest as selftest
    from cotenant.api.doctor import selftest_nodes as selftest_nodes
    from cotenant.api.explain import explain as explain
    from cotenant.api.explain import explain_metric as explain_metric
    from cotenant.api.fleet import fleet_job as fleet_job
    from cotenant.api.handles import Comparison as Comparison
    from cotenant.api.handles import Run as Run
    from cotenant.api.init import init as init
    from cotenant.api.lists import export_workload as export_workload
    from cotenant.api.lists import list_devices as list_devices
    from cotenant.api.lists import list_kernels as list_kernels
    from cotenant.api.lists import list_servers as list_servers
    from cotenant.api.lists import list_studies as list_studies
    from cotenant.api.lists import list_workloads as list_workloads
    from cotenant.api.lists import schema as schema
    from cotenant.api.plan import Plan as Plan
    from cotenant.api.plan import plan as plan
    from cotenant.api.predict import Prediction as Prediction
    from cotenant.api.predict import predict as predict
    from cotenant.api.profile import profile as profile
    from cotenant.api.records import export as export
    from cotenant.api.records import sql as sql
    from cotenant.api.records import verify as verify
    from cotenant.api.report import report as report
    from cotenant.api.run import dry_run as dry_run
    from cotenant.api.run import run as run
    from cotenant.api.run import run_active as run_active
    from cotenant.api.search import search as search
    from cotenant.api.serve import promise as promise
    from cotenant.api.serve import serve as serve
    from cotenant.api.serve import top as top
    from cotenant.api.show import show as show
    from cotenant.api.show import show_search_results as show_search_results
    from cotenant.api.view import view as view
    from cotenant.api.watch import show_watched as show_watched
    from cotenant.api.watch import watch as watch
    from cotenant.errors import BadInput as BadInput
    from cotenant.errors import CotenantError as CotenantError
    from cotenant.errors import DatabaseError as DatabaseError
    from cotenant.errors import DataError as DataError
    from cotenant.errors import DeviceBusy as DeviceBusy
    from cotenant.errors import DeviceError as DeviceError
    from cotenant.errors import DoesNotFit as DoesNotFit
    from cotenant.errors import FleetError as FleetError
    from cotenant.errors import ImpossibleObjectives as ImpossibleObjectives
    from cotenant.errors import PredictionError as PredictionError
    from cotenant.errors import QueryError as QueryError
    from cotenant.errors import Refused as Refused
    from cotenant.errors import RunFolderError as RunFolderError
    from cotenant.errors import SchedulingError as SchedulingError
    from cotenant.errors import ServingError as ServingError
    from cotenant.errors import SharingUnavailable as SharingUnavailable
    from cotenant.errors import StudyError as StudyError
    from cotenant.errors import TenantFailed as TenantFailed
    from cotenant.errors import WatchError as WatchError
    from cotenant.errors import WorkloadError as WorkloadError
    from cotenant.planning.check import check_plan as check_plan
    from cotenant.planning.inputs import write_study as write_study
    from cotenant.serving.library import Scheduler as Scheduler
    from cotenant.study.model import Study as Study

__version__ = "0.1.0"

_HOMES = {
    "api.run": "run dry_run run_active",
    "api.show": "show show_search_results",
    "api.report": "report",
    "api.explain": "explain explain_metric",
    "api.compare": "compare save_baseline",
    "api.predict": "predict Prediction",
    "api.plan": "plan Plan",
    "planning.check": "check_plan",
    "planning.inputs": "write_study",
    "api.serve": "serve promise top",
    "api.init": "init",
    "api.watch": "watch show_watched",
    "api.copies": "copies",
    "api.batch": "batch",
    "api.profile": "profile",
    "api.search": "search",
    "api.calibrate": "calibrate calibrate_server predict_server",
    "api.doctor": "doctor selftest selftest_nodes",
    "api.lists": "list_studies list_devices list_workloads list_kernels list_servers export_workload schema",
    "api.records": "sql export verify",
    "api.view": "view",
    "api.fleet": "fleet_job",
    "api.handles": "Run Comparison",
    "serving.library": "Scheduler",
    "study.model": "Study",
    "errors": (
        "BadInput CotenantError DataError DatabaseError DeviceBusy DeviceError DoesNotFit FleetError "
        "ImpossibleObjectives PredictionError QueryError Refused RunFolderError SchedulingError ServingError "
        "SharingUnavailable StudyError TenantFailed WatchError WorkloadError"
    ),
}
"""Where each public name is defined, in the order of the reference. A new name also goes into the imports above."""
_NAMESPACES = {"db": "cotenant.api.db", "types": "cotenant.types"}

if not TYPE_CHECKING:  # a type checker takes the imports above for the list
    _HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
    __all__ = ["__version__", *_HOME, *_NAMESPACES]  # noqa: PLE0604 - strings, which the linter can't see

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _NAMESPACES:
            return import_module(_NAMESPACES[name])
        if name not in _HOME:
            raise AttributeError(f"module 'cotenant' has no attribute {name!r}")
        return getattr(import_module(f"cotenant.{_HOME[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
