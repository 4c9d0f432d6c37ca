"""Requests of several tenants on a GPU: contention and the event engine."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.contention.closed_form import DIFFERENCES, Terms, slowdowns
    from cotenant.prediction.contention.demand import Demands, demands_of, joined
    from cotenant.prediction.contention.engine import ACTIVITIES
    from cotenant.prediction.contention.layout import (
        ONE_THREAD,
        Layout,
        Part,
        candidates,
        lay_out,
        loaded_by,
        missing,
        mps_caps,
        nearest,
        own_shares,
        part_of,
        slicing_of,
        whole_of,
    )
    from cotenant.prediction.contention.mix import LEAST_CV, MixTenant, mean_slowdowns, stretches
    from cotenant.prediction.contention.simulation import Outcome, Player, Requests, Steps, simulate
    from cotenant.prediction.contention.trace import Trace, plain_trace
else:
    __getattr__, __dir__ = front(__name__, __file__)
