"""Sweeps over clocks and power limits: the knee, and the clock that needs the least energy, in a sentence."""

import pytest

from cotenant.analyse.dvfs import JobReading, sentence, sweeps
from cotenant.api.run import run
from cotenant.api.show import show
from cotenant.study.files import study_from_text

KNEE = 950.0


def reading(clock: float | None, *, limit: float | None = None, core: float = 1.0, job: str = "job") -> JobReading:
    """A device whose power is linear up to the knee and bends above it; at most 1500 MHz."""
    mhz = clock or 1500.0
    watts = 40 + 0.06 * mhz + 6e-4 * max(0.0, mhz - KNEE) ** 2
    time_ms = 10 * ((1 - core) + core * 1500 / mhz)
    return JobReading("r", job, "d", clock, limit, mhz, watts, time_ms)


CLOCKS = (1500, 1400, 1300, 1200, 1100, 1000, 900, 800, 700, 600)


def test_the_knee_is_found_and_the_best_clock_is_near_it():
    [sweep] = sweeps([reading(None), *(reading(float(clock)) for clock in CLOCKS)])
    assert sweep.power is not None
    assert sweep.power.knee_mhz == pytest.approx(KNEE, abs=30)
    assert sweep.best.value == 1000
    assert sweep.time is not None
    assert sweep.time.core_share == pytest.approx(1, abs=0.01)
    assert sweep.energy_saved == pytest.approx(1 - (40 + 60 + 1.5) * 15 / ((40 + 90 + 181.5) * 10))
    assert sentence(sweep) == (
        "job needs the least energy at 1000 MHz: 1.52 J a request, 51 % less than with no limit, for 50 % more time; "
        f"power rises faster above a knee at about {sweep.power.knee_mhz:.0f} MHz (at clocks left out of the fit, the "
        f"curves are off by {sweep.time.held_out * 100:.2g} % in time, {sweep.power.held_out * 100:.2g} % in power)."
    )


def test_work_that_waits_for_memory_is_best_at_the_lowest_clock():
    [sweep] = sweeps([reading(float(clock), core=0.0) for clock in CLOCKS])
    assert sweep.best.value == 600
    assert sweep.time_lost == pytest.approx(0)


def test_a_sweep_of_power_limits_has_no_knee_and_names_the_limit():
    def at(limit: float, watts: float, ms: float) -> JobReading:
        return JobReading("r", "job", "d", None, limit, 1000.0, watts, ms)

    [sweep] = sweeps([reading(None), at(250, 248, 10.4), at(200, 199, 11.5), at(150, 149, 16.9)])
    assert sweep.control == "power_w"
    assert sweep.power is None
    assert sentence(sweep).startswith("job needs the least energy at a limit of 200 W: 2.29 J a request")


def test_two_clocks_do_not_make_a_sweep_nor_does_a_clock_with_a_limit():
    assert sweeps([reading(1000.0), reading(900.0), reading(None)]) == ()
    assert sweeps([reading(clock, limit=200.0) for clock in (900.0, 1000.0, 1100.0)]) == ()


def test_if_nothing_saves_energy_the_sentence_says_that():
    flat = [JobReading("r", "job", "d", clock, None, clock, 100.0, 1e6 / clock) for clock in (600.0, 800.0, 1000.0)]
    [sweep] = sweeps(flat)
    assert sentence(sweep) == "job: no clock needs less energy per request than 1000 MHz."


def test_a_simulated_v100_has_its_knee_where_the_catalogue_has_it(tmp_path):
    clocks = ", ".join(f"{{clock_mhz: {share}%}}" for share in (100, 90, 80, 70, 60, 50, 40))
    text = (
        "tenants: {sgemm: {workload: sgemm, params: {size: 4096}}}\nmixes: [solo]\n"
        f"settings: [{{}}, {clocks}]\nwindow: 600ms\nlead: 50ms\nblocks: 1\n"
    )
    folder = run(study_from_text(text, source="s"), device="sim:v100-sxm2-16gb", out=tmp_path).folder
    [sweep] = show([folder]).sweeps
    assert sweep.power is not None
    assert sweep.power.knee_mhz == pytest.approx(950, abs=60)
    assert 0.1 < sweep.energy_saved < 0.3
    assert 900 <= (sweep.best.value or 0) <= 1100
