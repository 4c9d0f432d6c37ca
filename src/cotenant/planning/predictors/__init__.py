"""Predictors of mixes for plans: the simulation in closed form and event by event, and measurements."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.planning.predictors.scheduled import OrderedTenant, OrderedTimes, in_order
else:
    __getattr__, __dir__ = front(__name__, __file__)
