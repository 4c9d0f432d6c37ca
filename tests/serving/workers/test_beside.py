import os

from cotenant.serving.workers.place import kept_off


def test_the_front_end_keeps_off_the_device_and_comes_back():
    before = os.sched_getaffinity(0)
    device = {max(before)}
    with kept_off(device):
        assert os.sched_getaffinity(0) == (before - device or before)
    assert os.sched_getaffinity(0) == before


def test_it_stays_where_it_is_if_the_device_has_all_cores():
    before = os.sched_getaffinity(0)
    with kept_off(before):
        assert os.sched_getaffinity(0) == before
