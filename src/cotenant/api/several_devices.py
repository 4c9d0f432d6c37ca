"""One study on several devices in turn: a run for each, read together."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.measure.events import Listener
from cotenant.study.model import Study

if TYPE_CHECKING:
    from cotenant.analyse.sharing.result import Result
    from cotenant.devices.protocol import Device
    from cotenant.measure.plan import RunPlan
    from cotenant.study.forecast import Forecast


def each_of(devices: str | None) -> tuple[str, ...]:
    """The devices of a list such as `sim:t4,sim:v100-sxm2-32gb`; empty for a group such as `cuda:0,1`."""
    parts = [part.strip() for part in (devices or "").split(",")]
    whole = all(part == "cpu" or (part.partition(":")[2] and not part[0].isdigit()) for part in parts)
    return tuple(dict.fromkeys(parts)) if len(parts) > 1 and whole else ()


def run_on_each(
    study: str | Path | Study, names: Sequence[str], overrides: Sequence[str], out: Path, listener: Listener
) -> "Result":
    """Run the study on each device; a tenant that doesn't fit on one is left out there, and its run records that.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.api.show import show
    from cotenant.measure.session import carry_out

    plans = [plan_on(study, name, overrides) for name in names]  # report errors on any device before the first run
    paths = [carry_out(plan, place, folder=None, out=out, listener=listener)[1] for plan, place in plans]
    return show(paths)


def forecasts_on_each(study: str | Path | Study, names: Sequence[str], overrides: Sequence[str]) -> "list[Forecast]":
    """Forecast of the study on each device."""
    from cotenant.measure.fit import forecast_for

    return [forecast_for(*plan_on(study, name, overrides)) for name in names]


def plan_on(study: str | Path | Study, name: str, overrides: Sequence[str]) -> "tuple[RunPlan, Device]":
    """The study on one device, without the tenants that don't fit."""
    from dataclasses import replace

    from cotenant.api.run import resolved
    from cotenant.errors import DoesNotFit
    from cotenant.measure.fit import forecast_for
    from cotenant.measure.plan import plan_for
    from cotenant.study.leaving_out import without
    from cotenant.text import size

    plan, place = resolved(study, name, None, overrides)
    found = forecast_for(plan, place)
    misfits = {mix.mix: mix.needed_bytes for mix in found.solo().memory if not mix.fits}
    if not misfits:
        return plan, place
    if len(misfits) == len(plan.study.measured()):
        raise DoesNotFit(
            f"no tenant of {plan.study.name} fits on {name}", hint="leave the device out, or lower the batches"
        )
    said = tuple(
        f"{tenant} was left out: it needs {size(needed)}, and the device has {size(found.memory_bytes)}"
        for tenant, needed in misfits.items()
    )
    smaller = plan_for(without(plan.study, misfits), place, plan.modes)
    return replace(smaller, too_small_for=said), place
