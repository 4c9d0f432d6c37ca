"""The order of a benchmark that has to end in time: who is compared with whom, and what is repeated."""

import pytest

from benchmarks.serving.rounds import GROUPS, Round, following, planned, undone

SYSTEMS = {name for group in GROUPS.values() for name in group}


def rows(one, *, slice_=1, foreign=0.0):
    """A finished round."""
    return [
        {"system": system, "scenario": scenario, "seed": one.seed, "slice": slice_, "foreign": foreign}
        for system, scenario in one.turns(SYSTEMS)
    ]


def test_peers_take_part_evenly_and_ray_comes_last():
    groups = [one.group for one in planned(range(1, 11), range(1, 4))]
    assert groups.count("compared") == 10
    assert [groups.index("peers"), groups[-3:]] == [3, ["ray"] * 3]
    assert [one.seed for one in planned(range(1, 11), range(1, 4)) if one.group == "peers"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (rows(Round("compared", 1)), []),
        (rows(Round("compared", 1))[:-1], [Round("compared", 1)]),
        (rows(Round("compared", 1), foreign=0.5), [Round("compared", 1)]),
        (rows(Round("compared", 1))[:4] + rows(Round("compared", 1), slice_=2)[4:], [Round("compared", 1)]),
    ],
    ids=["finished", "interrupted", "disturbed", "in two slices"],
)
def test_a_round_is_repeated_unless_all_its_runs_were_quiet_and_in_one_slice(seen, left):
    assert undone([Round("compared", 1)], seen, SYSTEMS) == left


def test_a_round_of_the_peers_gives_way_to_what_is_compared():
    rounds = [Round("peers", 1), Round("compared", 2), Round("ray", 1)]
    assert following(rounds, SYSTEMS, seconds=10, left_s=3600) == rounds[0]
    assert following(rounds, SYSTEMS, seconds=10, left_s=400) == rounds[1]
    assert following(rounds, SYSTEMS, seconds=10, left_s=200) == rounds[2]
    assert following(rounds, SYSTEMS, seconds=10, left_s=20) is None
