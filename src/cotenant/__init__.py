"""cotenant: should these workloads share an accelerator, how, and at what cost?

Every verb of the command line is a function here, and every result has a type::

    import cotenant

    result = cotenant.run("quick")
    print(result.mixes[0].slowdown)

Nothing but this file is loaded until a name is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.analyse.comparison.history import History as History
    from cotenant.analyse.comparison.pair import Comparison as Comparison
    from cotenant.analyse.copies.answer import CopiesAnswer as CopiesAnswer
    from cotenant.analyse.copies.option import CopiesOption as CopiesOption
    from cotenant.analyse.device_use import DeviceUse as DeviceUse
    from cotenant.analyse.dvfs import Sweep as Sweep
    from cotenant.analyse.estimates.estimate import Estimate as Estimate
    from cotenant.analyse.estimates.quantiles import Missing as Missing
    from cotenant.analyse.estimates.quantiles import Number as Number
    from cotenant.analyse.estimates.quantiles import QuantileEstimate as QuantileEstimate
    from cotenant.analyse.explanation.explain import Explanation as Explanation
    from cotenant.analyse.kernel_overlap import KernelProfile as KernelProfile
    from cotenant.analyse.neighbours.influence import Influence as Influence
    from cotenant.analyse.neighbours.watched import Watched as Watched
    from cotenant.analyse.neighbours.watched import WatchedTenant as WatchedTenant
    from cotenant.analyse.sharing.cells import Cell as Cell
    from cotenant.analyse.sharing.metrics import Metric as Metric
    from cotenant.analyse.sharing.result import Result as Result
    from cotenant.analyse.sharing.slo import Attainment as Attainment
    from cotenant.analyse.sharing.summary import MixSummary as MixSummary
    from cotenant.analyse.sharing.summary import Summary as Summary
    from cotenant.analyse.sharing.summary import TenantSummary as TenantSummary
    from cotenant.analyse.variability.drift import Drift as Drift
    from cotenant.analyse.variability.summary import Variability as Variability
    from cotenant.api.active import ActiveResult as ActiveResult
    from cotenant.api.active import run_active as run_active
    from cotenant.api.batch import batch as batch
    from cotenant.api.calibrate import calibrate as calibrate
    from cotenant.api.calibrate import calibrate_server as calibrate_server
    from cotenant.api.compare import compare as compare
    from cotenant.api.compare import save_baseline as save_baseline
    from cotenant.api.compare_plan import PlanAndReality as PlanAndReality
    from cotenant.api.compare_plan import compare_plan as compare_plan
    from cotenant.api.copies import copies as copies
    from cotenant.api.db import db_add as db_add
    from cotenant.api.db import db_anomalies as db_anomalies
    from cotenant.api.db import db_compare_sensors as db_compare_sensors
    from cotenant.api.db import db_contents as db_contents
    from cotenant.api.db import db_gather as db_gather
    from cotenant.api.db import db_gpu as db_gpu
    from cotenant.api.db import db_gpus as db_gpus
    from cotenant.api.db import db_report as db_report
    from cotenant.api.db import db_sensors as db_sensors
    from cotenant.api.db import db_trend as db_trend
    from cotenant.api.doctor import doctor as doctor
    from cotenant.api.doctor import doctor_fix as doctor_fix
    from cotenant.api.doctor import doctor_restore as doctor_restore
    from cotenant.api.explain import explain as explain
    from cotenant.api.explain import explain_metric as explain_metric
    from cotenant.api.export import export as export
    from cotenant.api.fleet import fleet_job as fleet_job
    from cotenant.api.init import init as init
    from cotenant.api.kernels import list_kernels as list_kernels
    from cotenant.api.lists import export_workload as export_workload
    from cotenant.api.lists import list_devices as list_devices
    from cotenant.api.lists import list_servers as list_servers
    from cotenant.api.lists import list_studies as list_studies
    from cotenant.api.lists import list_workloads as list_workloads
    from cotenant.api.plan import compare_policies as compare_policies
    from cotenant.api.plan import plan as plan
    from cotenant.api.plan_tenants import Planned as Planned
    from cotenant.api.plan_tenants import WrittenExport as WrittenExport
    from cotenant.api.plan_tenants import export_plan as export_plan
    from cotenant.api.plan_tenants import moves_from as moves_from
    from cotenant.api.plan_tenants import plan_tenants as plan_tenants
    from cotenant.api.plan_tenants import read_planned as read_planned
    from cotenant.api.plan_tenants import write_plan as write_plan
    from cotenant.api.plan_tenants import write_plan_page as write_plan_page
    from cotenant.api.predict import predict as predict
    from cotenant.api.predict import write_prediction_page as write_prediction_page
    from cotenant.api.profile import Profile as Profile
    from cotenant.api.profile import profile as profile
    from cotenant.api.report import Written as Written
    from cotenant.api.report import report as report
    from cotenant.api.run import dry_run as dry_run
    from cotenant.api.run import run as run
    from cotenant.api.schema import schema as schema
    from cotenant.api.search import search as search
    from cotenant.api.selftest import selftest as selftest
    from cotenant.api.selftest import selftest_nodes as selftest_nodes
    from cotenant.api.serve import promise as promise
    from cotenant.api.serve import serve as serve
    from cotenant.api.show import show as show
    from cotenant.api.show import show_search_results as show_search_results
    from cotenant.api.sql import sql as sql
    from cotenant.api.top import top as top
    from cotenant.api.verify import verify as verify
    from cotenant.api.view import view as view
    from cotenant.api.watch import show_watched as show_watched
    from cotenant.api.watch import watch as watch
    from cotenant.devices import DeviceInfo as DeviceInfo
    from cotenant.devices.protocol import Finding as Finding
    from cotenant.devices.simulated.calibrated import CalibratedTenant as CalibratedTenant
    from cotenant.devices.simulated.calibrated import Calibration as Calibration
    from cotenant.devices.simulated.calibrated import EngineCalibration as EngineCalibration
    from cotenant.errors import BadInput as BadInput
    from cotenant.errors import CotenantError as CotenantError
    from cotenant.errors import DatabaseError as DatabaseError
    from cotenant.errors import DataError as DataError
    from cotenant.errors import DeviceBusy as DeviceBusy
    from cotenant.errors import DeviceError as DeviceError
    from cotenant.errors import DoesNotFit as DoesNotFit
    from cotenant.errors import FleetError as FleetError
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
    from cotenant.measure.batching.answer import BatchAnswer as BatchAnswer
    from cotenant.measure.events import BlockDone as BlockDone
    from cotenant.measure.events import CurrentEstimate as CurrentEstimate
    from cotenant.measure.events import DeviceAt as DeviceAt
    from cotenant.measure.events import Noticed as Noticed
    from cotenant.measure.events import Preparing as Preparing
    from cotenant.measure.events import RunEnded as RunEnded
    from cotenant.measure.events import RunStarted as RunStarted
    from cotenant.measure.events import TrialDone as TrialDone
    from cotenant.measure.events import TrialStarted as TrialStarted
    from cotenant.measure.selftest import SelfTest as SelfTest
    from cotenant.planning.assignment import Plan as Plan
    from cotenant.planning.check import Checked as Checked
    from cotenant.planning.check import check_plan as check_plan
    from cotenant.planning.comparison import PolicyComparison as PolicyComparison
    from cotenant.planning.inputs.studies import write_study as write_study
    from cotenant.planning.mixes.plan import ServingPlan as ServingPlan
    from cotenant.prediction.interference.forecast import MixForecast as MixForecast
    from cotenant.prediction.interference.forecast import NextMix as NextMix
    from cotenant.prediction.interference.forecast import Prediction as Prediction
    from cotenant.prediction.interference.forecast import Ranged as Ranged
    from cotenant.prediction.interference.forecast import Tail as Tail
    from cotenant.prediction.interference.forecast import TenantForecast as TenantForecast
    from cotenant.prediction.interference.forecast import Trust as Trust
    from cotenant.prediction.kernels.traces import KernelTrace as KernelTrace
    from cotenant.ranking.outcome import SearchOutcome as SearchOutcome
    from cotenant.serving.library import Scheduler as Scheduler
    from cotenant.store.database.add import Added as Added
    from cotenant.store.database.database import Sensor as Sensor
    from cotenant.store.database.questions import Anomalies as Anomalies
    from cotenant.store.database.questions import Contents as Contents
    from cotenant.store.database.questions import GpuStory as GpuStory
    from cotenant.store.database.sensing import SensorPair as SensorPair
    from cotenant.store.imports.search_json import SearchJson as SearchJson
    from cotenant.store.query import Table as Table
    from cotenant.store.verifying import Verified as Verified
    from cotenant.study.forecast import Forecast as Forecast
    from cotenant.study.library import StudyInfo as StudyInfo
    from cotenant.study.model import Study as Study
    from cotenant.workloads import WorkloadInfo as WorkloadInfo

__version__ = "0.1.0"

_HOMES = {
    "api.active": "ActiveResult run_active",
    "api.batch": "batch",
    "api.calibrate": "calibrate calibrate_server",
    "api.compare": "compare save_baseline",
    "api.compare_plan": "PlanAndReality compare_plan",
    "api.copies": "copies",
    "api.db": (
        "db_add db_anomalies db_compare_sensors db_contents db_gather db_gpu db_gpus db_report db_sensors db_trend"
    ),
    "api.doctor": "doctor doctor_fix doctor_restore",
    "api.explain": "explain explain_metric",
    "api.export": "export",
    "api.fleet": "fleet_job",
    "api.init": "init",
    "api.kernels": "list_kernels",
    "api.lists": "export_workload list_devices list_servers list_studies list_workloads",
    "api.plan": "compare_policies plan",
    "api.plan_tenants": "Planned WrittenExport export_plan moves_from plan_tenants read_planned write_plan "
    "write_plan_page",
    "planning.check": "Checked check_plan",
    "planning.inputs.studies": "write_study",
    "api.predict": "predict write_prediction_page",
    "api.profile": "Profile profile",
    "api.report": "Written report",
    "api.run": "dry_run run",
    "api.schema": "schema",
    "api.search": "search",
    "api.selftest": "selftest selftest_nodes",
    "api.serve": "promise serve",
    "api.show": "show show_search_results",
    "api.sql": "sql",
    "api.top": "top",
    "api.verify": "verify",
    "api.view": "view",
    "api.watch": "show_watched watch",
    "analyse.comparison.history": "History",
    "analyse.comparison.pair": "Comparison",
    "analyse.copies.answer": "CopiesAnswer",
    "analyse.copies.option": "CopiesOption",
    "analyse.device_use": "DeviceUse",
    "analyse.dvfs": "Sweep",
    "analyse.estimates.estimate": "Estimate",
    "analyse.estimates.quantiles": "Missing Number QuantileEstimate",
    "analyse.explanation.explain": "Explanation",
    "analyse.kernel_overlap": "KernelProfile",
    "analyse.neighbours.influence": "Influence",
    "analyse.neighbours.watched": "Watched WatchedTenant",
    "analyse.sharing.cells": "Cell",
    "analyse.sharing.metrics": "Metric",
    "analyse.sharing.result": "Result",
    "analyse.sharing.slo": "Attainment",
    "analyse.sharing.summary": "MixSummary Summary TenantSummary",
    "analyse.variability.drift": "Drift",
    "analyse.variability.summary": "Variability",
    "devices": "DeviceInfo",
    "devices.protocol": "Finding",
    "devices.simulated.calibrated": "CalibratedTenant Calibration EngineCalibration",
    "prediction.interference.forecast": "MixForecast NextMix Prediction Ranged Tail TenantForecast Trust",
    "prediction.kernels.traces": "KernelTrace",
    "errors": (
        "BadInput CotenantError DataError DatabaseError DeviceBusy DeviceError DoesNotFit FleetError PredictionError "
        "QueryError Refused RunFolderError SchedulingError ServingError SharingUnavailable StudyError TenantFailed "
        "WatchError WorkloadError"
    ),
    "measure.batching.answer": "BatchAnswer",
    "measure.events": (
        "BlockDone CurrentEstimate DeviceAt Noticed Preparing RunEnded RunStarted TrialDone TrialStarted"
    ),
    "measure.selftest": "SelfTest",
    "planning.assignment": "Plan",
    "planning.comparison": "PolicyComparison",
    "planning.mixes.plan": "ServingPlan",
    "ranking.outcome": "SearchOutcome",
    "serving.library": "Scheduler",
    "store.database.add": "Added",
    "store.database.database": "Sensor",
    "store.database.questions": "Anomalies Contents GpuStory",
    "store.database.sensing": "SensorPair",
    "store.imports.search_json": "SearchJson",
    "store.query": "Table",
    "store.verifying": "Verified",
    "study.forecast": "Forecast",
    "study.library": "StudyInfo",
    "study.model": "Study",
    "workloads": "WorkloadInfo",
}
"""Where each public name is defined, verbs first. A new name also goes into the imports above, for type checkers."""

if not TYPE_CHECKING:  # a type checker takes the imports above for the list
    _HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
    __all__ = ["__version__", *_HOME]  # noqa: PLE0604 - strings, which the linter can't see

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'cotenant' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"cotenant.{_HOME[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
