"""Reject objectives below the solo time of a request: everything would be refused without explanation."""

from cotenant.errors import ServingError
from cotenant.scheduling import Contract, TenantCosts
from cotenant.text import duration


def check_floor(contract: Contract, costs: TenantCosts) -> None:
    """Reject an objective that a request can't meet even alone on an idle device.

    Raises:
        ServingError: Names the floor, the solo time of a typical request.
    """
    floor_s = costs.spaced_s
    promised_s = contract.within_s(costs.steps)
    if promised_s < floor_s:
        raise ServingError(
            f"Tenant {contract.tenant} can't meet its objective of {duration(promised_s)}: "
            f"a request takes {duration(floor_s)} alone on this device.",
            hint=f"Raise the objective above {duration(floor_s)}; twice that leaves room for others.",
        )
