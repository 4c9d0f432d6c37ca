"""Costs of a tenant's requests on this device, measured at admission."""

from cotenant.serving.costs.floor import check_floor
from cotenant.serving.costs.measuring import Effort, measure_costs

__all__ = ["Effort", "check_floor", "measure_costs"]
