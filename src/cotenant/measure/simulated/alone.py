"""Time of a request of each tenant alone on a simulated GPU, before any trial."""

from collections.abc import Mapping

from cotenant.devices.simulated.device import SimulatedGpu
from cotenant.errors import CotenantError
from cotenant.measure.calibration import capacity_trials
from cotenant.measure.simulated.setup import play, set_up, shortages
from cotenant.study.expand import closed_tenants
from cotenant.study.model import Study

WINDOW_S = 0.2
"""Limit in simulated time; the first request is always completed."""


def request_times(device: SimulatedGpu, study: Study) -> Mapping[str, float]:
    """Seconds of a request by tenant; those that can't be simulated or don't fit are omitted."""
    found: dict[str, float] = {}
    for trial in capacity_trials(closed_tenants(study), window_s=WINDOW_S, lead_s=0.0, seed=study.seed):
        try:
            setup = set_up(device, trial, {})
            if shortages(device, setup):
                continue
            [requests] = play(device, setup, None).requests
        except CotenantError:
            continue  # the run will report why
        took = requests.done - requests.started
        if took.size:
            found[trial.tenants[0].of] = float(took.mean()) / 1e9
    return found
