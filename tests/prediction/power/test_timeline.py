"""Over time: energy is the integral of power, heat is conserved, and a die reaches its steady state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.power.dies import Cooling, Die, Heat, draw_die
from cotenant.prediction.power.draw import FULL, Activity
from cotenant.prediction.power.settling import Limits, settle
from cotenant.prediction.power.timeline import Phase, simulate_timeline

V100 = find_gpu("v100-sxm2-16gb")
COLD = Heat(0.0, 0.0)
phases = st.lists(
    st.builds(
        Phase,
        seconds=st.floats(0.01, 3.0),
        activity=st.builds(Activity, compute=st.floats(0.0, 1.0), memory=st.floats(0.0, 1.0)),
    ),
    min_size=1,
    max_size=4,
)


@given(phases=phases, index=st.integers(0, 50))
def test_energy_is_the_integral_of_power(phases, index):
    run = simulate_timeline(V100, phases, die=draw_die(V100, index), start=COLD)
    assert run.end == pytest.approx(sum(phase.seconds for phase in phases))
    assert run.energy_j[-1] == pytest.approx(float(np.sum(np.diff(run.t_s) * run.power_w)))
    assert np.all(np.diff(run.energy_j) > 0)


@given(phases=phases, index=st.integers(0, 50))
def test_heat_is_conserved(phases, index):
    """Per pole: heat in = heat stored in its capacity + heat out through its resistance."""
    die = draw_die(V100, index)
    cooling = Cooling.of(V100, die)
    run = simulate_timeline(V100, phases, die=die, start=COLD)
    heat, out_fast, out_slow = COLD, 0.0, 0.0
    for power, span in zip(run.power_w, np.diff(run.t_s), strict=True):
        end = cooling.settled(power)
        out_fast += _outflow(heat.fast_c, end.fast_c, cooling.fast_c_per_w, cooling.fast_s, span)
        out_slow += _outflow(heat.slow_c, end.slow_c, cooling.slow_c_per_w, cooling.slow_s, span)
        heat = cooling.after(heat, power, span)
    stored_fast = heat.fast_c * cooling.fast_s / cooling.fast_c_per_w
    stored_slow = heat.slow_c * cooling.slow_s / cooling.slow_c_per_w
    assert stored_fast + out_fast == pytest.approx(run.energy_j[-1])
    assert stored_slow + out_slow == pytest.approx(run.energy_j[-1])
    assert run.temperature_c[-1] == pytest.approx(cooling.temperature_c(heat))


def _outflow(start_c, end_c, c_per_w, tau_s, span):
    """Integral of (degrees / resistance) while the pole goes from start towards end."""
    return (end_c * span + (start_c - end_c) * tau_s * (1 - np.exp(-span / tau_s))) / c_per_w


@pytest.mark.parametrize("die", [Die(), draw_die(V100, 17), Die(resistance=1.5)])
@pytest.mark.parametrize("limits", [Limits(), Limits(power_w=180), Limits(clock_mhz=1200)])
def test_a_die_ends_in_its_steady_state(die, limits):
    run = simulate_timeline(V100, [Phase(200.0, FULL)], die=die, limits=limits, start=COLD)
    settled = settle(V100, FULL, die, limits)
    assert run.clock_mhz[-1] == pytest.approx(settled.clock_mhz, abs=2)
    assert run.power_w[-1] == pytest.approx(settled.power_w, rel=0.005)
    assert run.temperature_c[-1] == pytest.approx(settled.temperature_c, abs=0.5)


def test_a_die_that_warms_up_under_the_limit_loses_clock():
    run = simulate_timeline(V100, [Phase(60.0, FULL)], start=COLD)
    assert run.clock_mhz[0] > run.clock_mhz[-1] + 20
    assert np.all(np.diff(run.temperature_c) > -1e-9)


def test_without_a_start_it_is_warm_from_the_first_instant():
    run = simulate_timeline(V100, [Phase(5.0, FULL)])
    assert np.ptp(run.clock_mhz) < 1.0


def test_shorter_steps_change_little():
    coarse, fine = (simulate_timeline(V100, [Phase(10.0, FULL)], start=COLD, step_s=step) for step in (0.05, 0.005))
    assert coarse.energy_j[-1] == pytest.approx(fine.energy_j[-1], rel=2e-3)
