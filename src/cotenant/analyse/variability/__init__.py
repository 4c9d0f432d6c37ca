"""How much "identical" devices differ, where it comes from, which of them are slow, since when and why.

Everything here works on `Readings`: a row per measurement of a kind of work on a GPU. A GPU stands for any
member of a group of devices; on a CPU it is a core.
"""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.variability.attribution import Drawn, SharedPower, shared_power
    from cotenant.analyse.variability.drift import DAY_S, Change, Drift, find_drift
    from cotenant.analyse.variability.frequency import AtSetting, ClockCurve, PowerByClock, clock_curves
    from cotenant.analyse.variability.readings import PLACES, UNKNOWN, FleetReadings
    from cotenant.analyse.variability.sensor_quality import (
        MOVED,
        HeatFit,
        SensorComparison,
        Stuck,
        compare_sensors,
        fit_heat,
        longest_stretch,
        stuck,
    )
    from cotenant.analyse.variability.slow import SlowGpu
    from cotenant.analyse.variability.summary import Variability, analyse_variability
    from cotenant.analyse.variability.variation import Box, GpuProfile, boxes
    from cotenant.analyse.variability.wording import (
        anomalies,
        change_sentence,
        day,
        headline,
        heat_sentence,
        opening,
        pair_sentence,
        shared_sentence,
        slow_sentence,
        stuck_sentence,
        undecided_sentences,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
