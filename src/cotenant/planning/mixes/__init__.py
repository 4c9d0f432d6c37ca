"""Plans for serving tenants: their needs, ways to share a device, and a plan that meets every objective."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.planning.mixes.budget import within_budget
    from cotenant.planning.mixes.judge import Minimise
    from cotenant.planning.mixes.kinds import DeviceKind, Price, price_of
    from cotenant.planning.mixes.make import Ask, Impossible, make_plan
    from cotenant.planning.mixes.moves import PlanMove, moves_between
    from cotenant.planning.mixes.serving_plan import (
        KeptObjective,
        PlannedDevice,
        SeatedTenant,
        ServingPlan,
        document_of,
        from_document,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
