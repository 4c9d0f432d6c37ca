"""The engine's small parts, each by hand: progress of a kernel, drains, steps, and what parts may load."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.contention import state
from cotenant.prediction.contention.layout import loaded_by, part_of
from cotenant.prediction.contention.rates import drain_ns, lost_ns
from cotenant.prediction.contention.simulation import Player, Requests, simulate
from cotenant.prediction.contention.state import BLOCK, COLUMNS, HOLDS, SM_DOMAIN, SPEED
from cotenant.prediction.contention.trace import plain_trace


@pytest.mark.parametrize(
    ("speed", "left", "device", "seen"),
    [(0.5, 90.0, 27.0, [0.0, 2.0, 1.0, 3.0]), (0.0, 100.0, 7.0, [0.0] * 4), (-1.0, 100.0, 7.0, [0.0] * 4)],
    ids=["at half speed", "waiting", "draining"],
)
def test_a_kernel_progresses_at_its_speed_and_is_seen_by_its_parts_of_the_device(speed, left, device, seen):
    floats, activity = np.zeros((1, COLUMNS)), np.zeros((2, 4))
    floats[0, [state.SINCE_NS, SPEED, state.LEFT_NS, state.KNOWN_NS, state.DEVICE_NS]] = 10.0, speed, 100.0, 100.0, 7.0
    floats[0, [state.OCCUPANCY, state.TENSOR, state.DRAM, state.SM_PART, state.DRAM_PART]] = 0.4, 0.2, 0.3, 0.5, 1.0
    state.settle(0, 30.0, 1, floats, activity)
    found = floats[0, [state.SINCE_NS, state.LEFT_NS, state.KNOWN_NS, state.DEVICE_NS]]
    assert found.tolist() == [30.0, left, left, device]
    assert activity.tolist() == [[0.0] * 4, pytest.approx(seen)]


def test_a_drain_waits_for_blocks_of_others_in_its_domain_at_the_speed_that_they_have():
    floats = np.zeros((6, COLUMNS))
    floats[:, [SPEED, HOLDS, BLOCK, SM_DOMAIN]] = [
        (1.0, 0.6, 10.0, 0), (1.0, 0.5, 10.0, 0), (0.5, 0.8, 20.0, 0), (1.0, 0.9, 10.0, 1), (1.0, 0.9, 0.0, 0),
        (-1.0, 0.9, 10.0, 0),
    ]  # fmt: skip
    found = drain_ns(0, 0.6, 6, np.arange(6), floats)
    assert found == pytest.approx(lost_ns(0.6, 0.5 + 0.4, 0.5 / 10 + 0.4 / 20))
    assert found == pytest.approx(0.5 * (0.5 / 0.6) * 0.9 / 0.07)
    assert drain_ns(0, 0.6, 2, np.arange(6), floats) == pytest.approx(0.5 * (0.1 / 0.6) * 0.5 / 0.05)


class Twice:
    """Two steps one after the other, the second after a pause."""

    most_kernels = 4

    def __init__(self, trace):
        self._left, self._trace = [5e6, 0.0], trace
        self.ended = []

    @property
    def finished(self):
        return len(self.ended) == 2

    def begin(self, now_ns):
        return (self._trace, max(now_ns, self._left.pop())) if self._left else (None, 0.0)

    def end(self, now_ns, device_ns):
        self.ended.append((now_ns, device_ns))

    def requests(self):
        nothing = np.zeros(0)
        return Requests(nothing, nothing, nothing, nothing, nothing, np.zeros((0, 1)))


def test_a_step_ends_with_its_last_kernel_and_is_told_what_its_kernels_took():
    trace = replace(plain_trace(kernels=4, device_ns=1e6), before_ns=2e5)
    steps = Twice(trace)
    simulate([Player(plain_trace(kernels=4, device_ns=4.0), outstanding=0, steps=steps)], window_end_ns=1e8)
    assert [device_ns for _, device_ns in steps.ended] == pytest.approx([1e6, 1e6])
    assert [now_ns for now_ns, _ in steps.ended] == pytest.approx([trace.alone_ns(), 5e6 + trace.alone_ns()])


@pytest.mark.parametrize(
    ("mode", "shares", "loaded"),
    [
        ("mps", (47.0, 48.0), 0.95), ("mps", (47.0, 48.1), 1.0), ("mps", (10.0,), 0.1), ("mps", (80.0, 80.0), 1.0),
        ("green", (50.0, 25.0), (52 + 24) / 108), ("mig", ("3g.20gb", "1g.5gb"), (42 + 14) / 108),
    ],
)  # fmt: skip
def test_how_much_of_a_gpu_its_parts_may_load(mode, shares, loaded):
    assert loaded_by(find_gpu("a100-sxm4-40gb"), mode, shares) == pytest.approx(loaded)


@pytest.mark.parametrize(
    ("mode", "percent", "sms"),
    [
        ("mps", 99.9, 107),
        ("mps", 0.5, 1),
        ("mps", 50.0, 54),
        ("green", 99.9, 104),
        ("green", 3.7, 0),
        ("green", 3.8, 4),
    ],
)
def test_a_part_has_no_more_sms_than_its_share(mode, percent, sms):
    assert part_of(find_gpu("a100-sxm4-40gb"), mode, percent).sms == sms
