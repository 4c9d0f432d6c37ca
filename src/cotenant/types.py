# ruff: noqa: PLC0414 - exported names, for type checkers
"""The types of results, events and inputs: what the verbs take and return, besides the handles at the top.

Each is loaded when it is used.
"""

from typing import TYPE_CHECKING

from cotenant.front import front, listed

if TYPE_CHECKING:
    from cotenant.analyse.comparison import History as History
    from cotenant.analyse.comparison import PairComparison as PairComparison
    from cotenant.analyse.copies_answer import CopiesAnswer as CopiesAnswer
    from cotenant.analyse.copy_options import CopiesOption as CopiesOption
    from cotenant.analyse.decision import Answer as Answer
    from cotenant.analyse.device_use import DeviceUse as DeviceUse
    from cotenant.analyse.dvfs import Sweep as Sweep
    from cotenant.analyse.explanation import Explanation as Explanation
    from cotenant.analyse.judged_promises import PlanAndReality as PlanAndReality
    from cotenant.analyse.kernel_overlap import KernelProfile as KernelProfile
    from cotenant.analyse.neighbours import Influence as Influence
    from cotenant.analyse.neighbours import Watched as Watched
    from cotenant.analyse.neighbours import WatchedExplanation as WatchedExplanation
    from cotenant.analyse.neighbours import WatchedTenant as WatchedTenant
    from cotenant.analyse.result import Result as Result
    from cotenant.analyse.sharing import Attainment as Attainment
    from cotenant.analyse.sharing import Cell as Cell
    from cotenant.analyse.sharing import Metric as Metric
    from cotenant.analyse.sharing import MixSummary as MixSummary
    from cotenant.analyse.sharing import Summary as Summary
    from cotenant.analyse.sharing import TenantSummary as TenantSummary
    from cotenant.analyse.variability import Drift as Drift
    from cotenant.analyse.variability import Variability as Variability
    from cotenant.api.fleet import Kind as Kind
    from cotenant.api.plan import WrittenExport as WrittenExport
    from cotenant.api.progress_output import Say as Say
    from cotenant.api.report import Written as Written
    from cotenant.devices import DeviceInfo as DeviceInfo
    from cotenant.devices.protocol import Finding as Finding
    from cotenant.devices.simulated import CalibratedTenant as CalibratedTenant
    from cotenant.devices.simulated import Calibration as Calibration
    from cotenant.devices.simulated import EngineCalibration as EngineCalibration
    from cotenant.measure.batching import BatchAnswer as BatchAnswer
    from cotenant.measure.events import BlockDone as BlockDone
    from cotenant.measure.events import CurrentEstimate as CurrentEstimate
    from cotenant.measure.events import DeviceAt as DeviceAt
    from cotenant.measure.events import Event as Event
    from cotenant.measure.events import Listener as Listener
    from cotenant.measure.events import Noticed as Noticed
    from cotenant.measure.events import Preparing as Preparing
    from cotenant.measure.events import RunEnded as RunEnded
    from cotenant.measure.events import RunStarted as RunStarted
    from cotenant.measure.events import TrialDone as TrialDone
    from cotenant.measure.events import TrialStarted as TrialStarted
    from cotenant.measure.profile import Profile as Profile
    from cotenant.measure.selftest import SelfTest as SelfTest
    from cotenant.measure.watch import WatchSession as WatchSession
    from cotenant.paths import AnyPath as AnyPath
    from cotenant.paths import Runs as Runs
    from cotenant.planning.assignment import JobPlan as JobPlan
    from cotenant.planning.assignment import Objective as Objective
    from cotenant.planning.check import Checked as Checked
    from cotenant.planning.inputs import NextFor as NextFor
    from cotenant.planning.mixes import Minimise as Minimise
    from cotenant.planning.mixes import PlanMove as PlanMove
    from cotenant.planning.mixes import ServingPlan as ServingPlan
    from cotenant.prediction.calibration import PredictedLoad as PredictedLoad
    from cotenant.prediction.interference import MixForecast as MixForecast
    from cotenant.prediction.interference import NextMix as NextMix
    from cotenant.prediction.interference import PredictedMixes as PredictedMixes
    from cotenant.prediction.interference import Tail as Tail
    from cotenant.prediction.interference import TenantForecast as TenantForecast
    from cotenant.prediction.interference import Trust as Trust
    from cotenant.prediction.kernels import KernelTrace as KernelTrace
    from cotenant.ranking.outcome import Began as Began
    from cotenant.ranking.outcome import PlannedSearch as PlannedSearch
    from cotenant.ranking.outcome import RoundEnded as RoundEnded
    from cotenant.ranking.outcome import SearchOutcome as SearchOutcome
    from cotenant.ranking.outcome import WithoutWeights as WithoutWeights
    from cotenant.ranking.outcome import Working as Working
    from cotenant.scheduling.roster import TenantStanding as TenantStanding
    from cotenant.serving.library import Admission as Admission
    from cotenant.serving.server import Listening as Listening
    from cotenant.serving.service import Service as Service
    from cotenant.store.database import Added as Added
    from cotenant.store.database import Anomalies as Anomalies
    from cotenant.store.database import Contents as Contents
    from cotenant.store.database import GpuStory as GpuStory
    from cotenant.store.database import SensorPair as SensorPair
    from cotenant.store.database import SensorUse as SensorUse
    from cotenant.store.export import Format as Format
    from cotenant.store.imports import SearchJson as SearchJson
    from cotenant.store.query import Table as Table
    from cotenant.store.verifying import Verified as Verified
    from cotenant.study.active_rounds import ActiveResult as ActiveResult
    from cotenant.study.run_forecast import Forecast as Forecast
    from cotenant.study.schema import StudyInfo as StudyInfo
    from cotenant.tenancy.interval import Estimate as Estimate
    from cotenant.tenancy.interval import Interval as Interval
    from cotenant.tenancy.interval import Missing as Missing
    from cotenant.tenancy.interval import Number as Number
    from cotenant.tenancy.plan_document import PlanDocument as PlanDocument
    from cotenant.workloads import WorkloadInfo as WorkloadInfo
    from cotenant.workloads.servers import Preset as Preset
else:
    __all__ = list(listed(__file__))
    __getattr__, __dir__ = front(__name__, __file__)
