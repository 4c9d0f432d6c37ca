"""Who carries out which block: nothing twice, nothing forgotten, whoever is lost."""

from hypothesis import given
from hypothesis import strategies as st

from cotenant.measure.calibration import instrument_trials
from cotenant.measure.dispatch import Dispatch

TRIAL = instrument_trials(0)[0].model_copy(update={"window_s": 0.3, "lead_s": 0.1})


class Blocks(Dispatch):
    """By the numbers of the blocks."""

    def take(self, host):
        stretch = self.next(host)
        return None if stretch is None else stretch.first


def dispatch(hosts=("a", "b", "c"), *, divided=True, blocks=6, done=frozenset(), turns=None, stretch_s=0.0):
    def missing(block, host):
        return [] if (block, host) in done else [TRIAL.model_copy(update={"block": block})]

    return Blocks(hosts, divided=divided, blocks_max=blocks, missing=missing, turns=turns, stretch_s=stretch_s)


def left(work):
    """What the hosts still carry out, one after another."""
    rest = [(host, block) for host in list(work.hosts) for block in blocks_of(work.owned.get(host))]
    for host in list(work.owned):
        work.done(host)
    while taken := [(host, stretch) for host in list(work.hosts) if (stretch := work.next(host)) is not None]:
        rest += [(host, block) for host, stretch in taken for block in blocks_of(stretch)]
        for host, _ in taken:
            work.done(host)
    return rest


def blocks_of(stretch):
    return range(stretch.first, stretch.after) if stretch is not None else ()


def test_workers_divide_the_blocks_between_them():
    work = dispatch()
    assert [work.take(host) for host in "abc"] == [0, 1, 2]
    assert work.take("a") is None, "one block at a time"
    work.done("b")
    assert work.take("b") == 3
    assert work.finished == 1


def test_replicates_each_go_through_all_blocks():
    work = dispatch(("a", "b"), divided=False, blocks=2)
    assert sorted(left(work)) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_what_a_lost_worker_had_begun_goes_to_another_one_even_after_the_end_was_called():
    work = dispatch(blocks=3)
    assert [work.take(host) for host in "abc"] == [0, 1, 2]
    work.stop()
    assert work.lose("b").first == 1
    work.done("a")
    assert work.take("a") == 1
    work.done("a")
    work.done("c")
    assert left(work) == []


def test_a_lost_replicate_takes_its_blocks_along():
    work = dispatch(("a", "b"), divided=False, blocks=1)
    assert work.take("a") == 0
    assert work.take("b") == 0
    work.lose("b")
    work.done("a")
    assert left(work) == []


def test_blocks_of_an_earlier_start_are_passed_over():
    work = dispatch(("a",), blocks=4, done={(0, "a"), (2, "a")})
    assert work.take("a") == 1
    work.done("a")
    assert work.take("a") == 3
    work.done("a")
    assert left(work) == []
    assert work.finished == 4


def test_hosts_of_one_rack_take_turns():
    work = dispatch(("a", "b", "c"), divided=False, turns={"a": "r1", "b": "r1", "c": "r2"})
    assert work.take("a") == 0
    assert work.take("b") is None, "a of the same rack is at work"
    assert work.take("c") == 0
    work.done("a")
    assert work.take("b") == 0


def test_short_blocks_are_taken_together_until_they_are_worth_it():
    work = dispatch(("a", "b"), blocks=7, stretch_s=1.0)
    first, second = work.next("a"), work.next("b")
    assert (first.first, first.after, len(first.trials)) == (0, 3, 3), "of 0.4 s each"
    assert (second.first, second.after) == (3, 6)
    assert work.finished == 0
    work.done("b")
    assert work.finished == 3
    work.lose("a")
    assert sorted(left(work)) == [("b", 0), ("b", 1), ("b", 2), ("b", 6)]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["next", "done", "lose"])), max_size=80),
    st.sampled_from([0.0, 1.0]),
)
def test_no_block_is_ever_with_two_workers_and_each_is_done_once(steps, stretch_s):
    work, done = dispatch("abcd", blocks=10, stretch_s=stretch_s), []
    for host, step in steps:
        if step == "next":
            work.next(host)
        elif step == "done" and host in work.owned:
            done += blocks_of(work.owned[host])
            work.done(host)
        elif step == "lose" and host != "a":
            work.lose(host)
        owned = [block for stretch in work.owned.values() for block in blocks_of(stretch)]
        assert len(set(owned)) == len(owned)
    assert sorted([*done, *(block for _, block in left(work))]) == list(range(10))
