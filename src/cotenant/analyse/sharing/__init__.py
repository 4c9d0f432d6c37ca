"""Effects of sharing: slowdown, throughput, fairness, objectives."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.sharing.accuracy import Moments, carry_over, settled_after
    from cotenant.analyse.sharing.capacity import (
        CapacityCurve,
        CurveCollector,
        LatencyCurve,
        beside_alone,
        capacity_curves,
    )
    from cotenant.analyse.sharing.cells import Cell, load_said, settings_said, shares_said, sharing_said, usable
    from cotenant.analyse.sharing.closing import CHECK_WORDS
    from cotenant.analyse.sharing.evidence import Peaks, RequestWork, TenantEvidence, cores_of, described, peaks_of
    from cotenant.analyse.sharing.metrics import METRICS, Metric, find_metric, near_metrics
    from cotenant.analyse.sharing.model_error import inverse, time_range, widened_estimate
    from cotenant.analyse.sharing.slo import (
        LATE,
        Attainment,
        CellKey,
        ObjectiveRequests,
        binomial_interval,
        queries_needed,
    )
    from cotenant.analyse.sharing.slowdown import CurrentSlowdown, RunningSlowdowns, Solos, log_slowdowns
    from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
else:
    __getattr__, __dir__ = front(__name__, __file__)
