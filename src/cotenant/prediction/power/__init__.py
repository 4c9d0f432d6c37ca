"""Power, clocks and heat of a GPU."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.power.dies import LONGHORN, TYPICAL, Cooling, Die, Dies, Heat, draw_die
    from cotenant.prediction.power.draw import Activity, mean_w
    from cotenant.prediction.power.settling import FREE, Limits, settle, settle_fleet
    from cotenant.prediction.power.timeline import Phase, read_sensors, simulate_timeline, warm
else:
    __getattr__, __dir__ = front(__name__, __file__)
