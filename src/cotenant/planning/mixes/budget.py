"""Plan within a power budget: lower the clocks of all devices until their maximum draw fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from cotenant.errors import CotenantError
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.make import Impossible
from cotenant.planning.mixes.serving_plan import ServingPlan
from cotenant.text import figure


def within_budget(
    make: Callable[[Sequence[DeviceKind]], ServingPlan], kinds: Sequence[DeviceKind], budget_w: float
) -> ServingPlan:
    """The plan at the highest clocks at which the maximum draw of all its devices is within the budget.

    Args:
        make: Makes a plan for the given kinds.
        kinds: Kinds of devices with their clocks.
        budget_w: Watts.

    Raises:
        CotenantError: A device's power is unknown, or no clock meets both the budget and the objectives.
    """
    unknown = [kind.name for kind in kinds if not kind.clocks]
    if unknown:
        raise CotenantError(
            f"the power draw of {unknown[0]} is unknown, so a power budget can't be enforced",
            hint="omit --power-budget, or plan for GPUs",
        )
    least: tuple[float, float] | None = None
    for level in range(max(len(kind.clocks) for kind in kinds)):
        held = [replace(kind, clocks=(kind.clocks[min(level, len(kind.clocks) - 1)],)) for kind in kinds]
        try:
            plan = make(held)
        except Impossible:
            if least is None:
                raise
            break  # lower clocks can't do better
        if plan.left_out and least is not None:
            break
        draws = sum((device.power_limit_w or 0.0) * device.devices for device in plan.devices)
        if draws <= budget_w and not plan.left_out:
            return plan
        now = (draws, held[0].clocks[0].mhz)
        least = now if least is None else min(least, now)
    assert least is not None
    raise CotenantError(
        f"{figure(budget_w)} W is too low: meeting every objective takes up to {figure(least[0])} W "
        f"(at {least[1]:.0f} MHz)",
        hint="raise the budget, relax objectives, or name more efficient devices",
    )
