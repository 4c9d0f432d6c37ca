"""Gavel's ResNet trainings with the profiles that `predict` makes: simulated, and calibrated by their solo times."""

from functools import partial

import numpy as np

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.prediction.calibration.solo import calibrating
from cotenant.prediction.contention.closed_form import log_slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.interference.covariance import GPU, GPU_PRIOR_HALF
from cotenant.prediction.interference.gathered import SoloTenant
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.profiles import profiles_of
from cotenant.prediction.interference.setting import setting_of
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.tenant_entry import TenantEntry
from validation.interference.gavel_data import GPUS, SOURCE
from validation.interference.gavel_matrix import Matrix
from validation.measures import absolute_error
from validation.result import Measure, Result, Row
from validation.users.sharing import gavel_job

TWINS = {"v100": "sim:v100-sxm2-16gb", "p100": "sim:p100-sxm2-16gb"}


def product_result(gpu: str, matrix: Matrix) -> Result:
    """Pairs of the only jobs in the catalogue, from solos alone."""
    twin = open_simulated(TWINS[gpu])
    known = {job.name: tenant for job in matrix.jobs if (tenant := gavel_job(job.name)) is not None}
    jobs = [job for job in matrix.jobs if job.name in known]
    specs = [TenantEntry.model_validate(known[job.name]).spec() for job in jobs]
    solos = [
        SoloTenant(TenantIdentity(spec.name, spec.batch), job.name, 1e9 * job.seconds, None, None, None, None)
        for job, spec in zip(jobs, specs, strict=True)
    ]
    controls, _ = calibrating(twin, specs, solos)
    traces = [twin.trace(twin.request(spec), whole_of(twin.gpu), controls) for spec in specs]
    profiles = profiles_of(traces, [solo.service_ns for solo in solos])
    setting = setting_of([job.family for job in jobs], profiles.features(), partial(log_slowdowns, demands_of(traces)))
    places = np.array([matrix.jobs.index(job) for job in jobs])
    mine = np.flatnonzero(np.isin(matrix.evidence.rows, places).all(axis=1))
    asked = matrix.evidence.rows[mine]
    nothing = matrix.evidence.only(np.empty(0, np.int64))
    predicted = Predictor(setting, nothing, GPU, prior_half=GPU_PRIOR_HALF).slowdowns(np.searchsorted(places, asked))
    fitted = np.exp(matrix.setting.prior(asked)[:, 0])
    truth = np.exp(matrix.evidence.logs[mine])
    rows = [
        Row(
            case=f"{matrix.jobs[victim].name} beside {matrix.jobs[neighbour].name}",
            measured=float(truth[number]),
            simulated=float(predicted.estimate[number, 0]),
            baselines={"prior only": float(fitted[number])},
        )
        for number, (victim, neighbour) in enumerate(asked)
    ]
    inside = (predicted.low[:, 0] <= truth) & (truth <= predicted.high[:, 0])
    return Result(
        data_set=f"gavel-{matrix.title.lower()}",
        what=f"ResNet trainings on a {GPUS[gpu].title} as `predict` profiles them, solos given",
        source=SOURCE,
        split="The prior alone, with profiles of the simulated GPU, calibrated by the solo times: what `predict` does "
        "for models of the catalogue. The other figures of this page use profiles fitted to solo times alone, as most "
        "of Gavel's jobs are not in the catalogue; `prior only` in the table is the prior with these. One constant of "
        "the simulation was set with the V100's pairs of ResNet-50 in view.",
        quantity="slowdown",
        unit="",
        rows=tuple(rows),
        measures=(
            absolute_error(rows, of="slowdown"),
            Measure("90 % intervals that hold", 100 * float(inside.mean()), "%", len(rows)),
        ),
    )
