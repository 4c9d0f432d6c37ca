"""The sharing law against measured data, where that is at hand; and what can be inferred from measured times."""

import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.prediction.calibration import anatomy
from cotenant.prediction.calibration.anatomy import Anatomy, Measured, told_apart
from cotenant.prediction.sharing.trace import FIXED_HOLDS
from validation import gavel, mig, miso, nos, parvagpu
from validation.copies import request_ns

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / "sharing").is_dir(), reason="no measured data here: set COTENANT_DATA to the folder that holds it"
)
KNOWN = Anatomy(host=(4.0, 0.02), device=(0.9, 0.38), fixed=(0.7, 0.2), sm_bound=(0.8, 0.5))


def times_of(anatomy: Anatomy, batches: list[int], parts: list[tuple[float, float]]) -> list[Measured]:
    found = []
    for batch in batches:
        for sm_share, dram_share in parts:
            trace = anatomy.trace(batch, unit_ns=1e6, sm_share=sm_share, dram_share=dram_share)
            time = request_ns([trace])[0] / 1e6
            found.append(Measured(batch=batch, time=time, sm_share=sm_share, dram_share=dram_share))
    return found


def test_times_over_batches_and_slices_tell_host_and_device_apart():
    slices = [(1 / 7, 1 / 8), (2 / 7, 2 / 8), (3 / 7, 4 / 8), (4 / 7, 4 / 8), (1.0, 1.0)]
    found = told_apart(times_of(KNOWN, [1, 4, 16, 64, 256], slices))
    assert found.host_time(1) == pytest.approx(KNOWN.host_time(1), rel=0.1)
    for batch in (16, 64, 256):
        assert found.parts(batch)[0] == pytest.approx(KNOWN.parts(batch)[0], rel=0.25)
        assert sum(found.parts(batch)) == pytest.approx(sum(KNOWN.parts(batch)), rel=0.05)


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_the_closed_form_for_fitting_is_what_the_engine_gives(copies):
    sizes = np.log([*KNOWN.host, *KNOWN.device])
    shares = np.array([*KNOWN.fixed, *KNOWN.sm_bound])
    for batch in (1, 8, 16, 64):
        trace = KNOWN.trace(batch, unit_ns=1e6)
        closed = anatomy._explained(
            np.concatenate([sizes, np.log(shares / (1 - shares))]), np.array([[batch, 1.0, 1.0, 1.0, copies]])
        )[0]
        assert np.mean(request_ns([trace] * copies)) / 1e6 == pytest.approx(closed, rel=0.08)


def test_tenants_that_leave_half_of_the_device_free_on_average_still_collide():
    """Each holds all SMs while it works and few while it doesn't, so that two of them meet now and then."""
    half = Anatomy(host=(1e-3, 1e-6), device=(1e-3, 1.0), fixed=(0.5, 0.8), sm_bound=(0.6, 0.6))
    trace = half.trace(8, unit_ns=1e6)
    busy = float((trace.occupancy * trace.duration_ns).sum() / trace.duration_ns.sum())
    assert 2 * busy < 1
    slowdown = np.mean(request_ns([trace] * 2)) / request_ns([trace])[0]
    assert 1.03 < slowdown < 1.5


@pytest.mark.parametrize("module", [nos, parvagpu, miso, mig, gavel])
def test_a_folder_without_the_data_is_refused_in_a_sentence(module, tmp_path):
    with pytest.raises(DataError) as error:
        module.validate(tmp_path)
    assert "\n" not in error.value.message


@needs_data
def test_turns_on_the_device_are_within_three_per_cent():
    turns, side_by_side = nos.validate(DATA)
    assert turns.measures[0].reached
    assert side_by_side.measures[0].value < 10


@needs_data
def test_pairs_of_training_jobs_are_within_fifteen_per_cent():
    pairs, on_p100 = gavel.validate(DATA)
    assert on_p100.measures[0].value < min(on_p100.measures[0].baselines.values())
    assert (pairs.n, pairs.n_held_out) == (633, 335)
    assert pairs.measures[0].reached
    assert np.mean([abs(row.simulated / row.measured - 1) for row in pairs.rows]) < 0.15
    constant = np.mean([abs(row.baselines["constant"] / row.measured - 1) for row in pairs.rows])
    assert constant == pytest.approx(0.198, abs=0.001)


@needs_data
def test_inference_and_training_on_slices_are_within_eight_per_cent_together():
    [slices] = mig.validate(DATA)
    assert slices.measures[0].reached
    assert slices.n_held_out == 261


@needs_data
def test_training_on_slices_beats_the_baselines():
    [slices] = miso.validate(DATA)
    assert slices.measures[0].value < min(slices.measures[0].baselines.values())


@needs_data
@pytest.mark.slow
def test_copies_and_slices_are_within_eight_per_cent():
    copies, traced, probed, solo_only = parvagpu.validate(DATA)
    assert copies.measures[0].reached
    assert traced.measures[0].value < 8
    assert (traced.n, traced.n_held_out) == (probed.n, probed.n_held_out)
    assert probed.measures[0].value < 8
    assert solo_only.measures[0].value > 8  # BERT; see its note
    everything = [abs(row.baselines["(1+(n*u)^4)^(1/4)"] / row.measured - 1) for row in copies.rows]
    assert np.mean(everything) == pytest.approx(0.154, abs=0.001)


@needs_data
@pytest.mark.slow
def test_the_constants_are_what_the_fitted_models_give(monkeypatch):
    """Only rows that are marked as fitted are looked at here."""
    measured, _, _ = parvagpu._read(DATA)
    times = {
        model: [parvagpu._time(case, measured[case]) for case in measured if parvagpu._is_solo_of(case, model)]
        for model in parvagpu.FITTED
    }
    shares = [(*one.fixed, *one.sm_bound) for one in map(told_apart, times.values())]
    assert np.mean(shares, axis=0) == pytest.approx(anatomy.TYPICAL, abs=0.03)
    errors = {}
    for holds in (0.25, FIXED_HOLDS, 0.45):
        monkeypatch.setattr(anatomy, "FIXED_HOLDS", holds)
        errors[holds] = _error_of_copies(measured, times)
    assert min(errors, key=errors.__getitem__) == FIXED_HOLDS


def _error_of_copies(measured, times):
    errors = []
    for model, given in times.items():
        found = told_apart(given)
        for case in (case for case in measured if case.model == model and case.processes > 1):
            trace = parvagpu._trace(found, case)
            simulated = np.mean(request_ns([trace] * case.processes, requests=6)) / request_ns([trace], requests=6)[0]
            errors.append(abs(simulated / (measured[parvagpu._solo(case)] / measured[case]) - 1))
    return np.mean(errors)
