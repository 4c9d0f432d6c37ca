"""Estimates with intervals, and the tests behind them."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.estimates.autocorrelation import MOST, Stretches, common_correlation
    from cotenant.analyse.estimates.distributions import student_t
    from cotenant.analyse.estimates.intervals import Floats, anytime_interval, positive_interval, ratio_interval
    from cotenant.analyse.estimates.quantiles import needed_for
    from cotenant.analyse.estimates.warmup import MOST_POINTS, classify
else:
    __getattr__, __dir__ = front(__name__, __file__)
