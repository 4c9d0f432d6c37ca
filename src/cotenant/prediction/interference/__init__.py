"""Slowdowns of tenants beside each other: a closed-form prior, corrected by measurements, with intervals."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.interference.covariance import (
        CPU,
        CPU_PRIOR_HALF,
        CPU_THREADS,
        GPU,
        GPU_PRIOR_HALF,
        PLAIN_PRIOR_HALF,
    )
    from cotenant.prediction.interference.elsewhere import (
        ForeignTable,
        foreign_solo,
        foreign_table,
        is_elsewhere,
        observed_table,
        plain_trace,
        recognised,
    )
    from cotenant.prediction.interference.forecast import (
        NAME,
        MixForecast,
        NextMix,
        OpenWay,
        PredictedMixes,
        Tail,
        TenantForecast,
        Trust,
        prediction_of,
        text_of,
    )
    from cotenant.prediction.interference.forecasting import (
        Asked,
        Engine,
        evidence_of,
        forecast_mixes,
        predictor_for,
        rates_of,
    )
    from cotenant.prediction.interference.gathered import Gathered, Learnt, SoloTenant, gather_evidence
    from cotenant.prediction.interference.gpu_mixes import GpuMixes
    from cotenant.prediction.interference.intervals import FEWEST
    from cotenant.prediction.interference.next_cells import choose_next_cells
    from cotenant.prediction.interference.predictor import MEASURED, Predictor, Slowdowns, stretched
    from cotenant.prediction.interference.profiles import (
        CpuProfiles,
        core_slowdowns,
        cores_wanted,
        power_use,
        profiles_of,
        roofline_shared,
    )
    from cotenant.prediction.interference.setting import LARGEST, mixes_of, setting_of
else:
    __getattr__, __dir__ = front(__name__, __file__)
