"""Dies: reproducible by number, distributed like the population."""

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.power.dies import LONGHORN, Dies, draw_die, fleet

V100, A100 = find_gpu("v100-sxm2-16gb"), find_gpu("a100-sxm4-40gb")


def test_die_17_is_always_the_same_die():
    assert fleet(V100, 20)[17] == fleet(V100, 392)[17] == draw_die(V100, 17)


def test_other_numbers_seeds_and_gpus_are_other_dies():
    assert len({draw_die(V100, 17), draw_die(V100, 18), draw_die(V100, 17, seed=1), draw_die(A100, 17)}) == 4


def test_dies_follow_the_population():
    dies = Dies.of(fleet(V100, 3000))
    for name in ("dynamic", "leakage", "time", "control"):
        spread = np.std(np.log(getattr(dies, name)))
        assert abs(spread / getattr(LONGHORN, name) - 1) < 0.06, name
    assert abs(np.std(dies.inlet_c) / LONGHORN.inlet_c - 1) < 0.06
    assert abs(np.median(dies.dynamic) - 1) < 0.005


def test_runs_of_one_die_differ_only_in_the_air():
    dies = Dies.of(fleet(V100, 3))
    runs = dies.warmed(np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]))
    assert np.all(runs.dynamic[0] == runs.dynamic[1])
    assert np.allclose(runs.inlet_c[1] - runs.inlet_c[0], [1.0, 2.0, 3.0])
