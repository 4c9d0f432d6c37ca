"""Who carries out which block: nothing twice, nothing forgotten, whoever is lost."""

from hypothesis import given
from hypothesis import strategies as st

from cotenant.fleet.dispatch import Dispatch


def dispatch(hosts=("a", "b", "c"), *, divided=True, blocks=6, done=frozenset(), turns=None):
    return Dispatch(
        hosts, divided=divided, blocks_max=blocks, todo=lambda block, host: (block, host) not in done, turns=turns
    )


def test_workers_divide_the_blocks_between_them():
    work = dispatch()
    assert [work.next(host) for host in "abc"] == [0, 1, 2]
    assert work.next("a") is None, "one block at a time"
    work.done("b")
    assert work.next("b") == 3
    assert work.finished == 1


def test_replicates_each_go_through_all_blocks():
    work = dispatch(("a", "b"), divided=False, blocks=2)
    seen = []
    while not work.over:
        for host in "ab":
            block = work.next(host)
            if block is not None:
                seen.append((host, block))
                work.done(host)
    assert sorted(seen) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_what_a_lost_worker_had_begun_goes_to_another_one_even_after_the_end_was_called():
    work = dispatch(blocks=3)
    assert [work.next(host) for host in "abc"] == [0, 1, 2]
    work.stop()
    assert work.lose("b") == 1
    assert not work.over
    work.done("a")
    assert work.next("a") == 1
    work.done("a")
    work.done("c")
    assert work.over


def test_a_lost_replicate_takes_its_blocks_along():
    work = dispatch(("a", "b"), divided=False, blocks=1)
    assert work.next("a") == 0
    assert work.next("b") == 0
    work.lose("b")
    work.done("a")
    assert work.over


def test_blocks_of_an_earlier_start_are_passed_over():
    work = dispatch(("a",), blocks=4, done={(0, "a"), (2, "a")})
    assert work.next("a") == 1
    work.done("a")
    assert work.next("a") == 3
    work.done("a")
    assert work.over


def test_hosts_of_one_rack_take_turns():
    work = dispatch(("a", "b", "c"), divided=False, turns={"a": "r1", "b": "r1", "c": "r2"})
    assert work.next("a") == 0
    assert work.next("b") is None, "a of the same rack is at work"
    assert work.next("c") == 0
    work.done("a")
    assert work.next("b") == 0


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["next", "done", "lose"])), max_size=80))
def test_no_block_is_ever_with_two_workers_and_each_is_done_once(steps):
    work, done = dispatch("abcd", blocks=10), []
    for host, step in steps:
        if step == "next":
            work.next(host)
        elif step == "done" and host in work.owned:
            done.append(work.owned[host])
            work.done(host)
        elif step == "lose" and host != "a":
            work.lose(host)
        assert len(set(work.owned.values())) == len(work.owned)
    while not work.over:
        for host in list(work.hosts):
            if host in work.owned:
                done.append(work.owned[host])
                work.done(host)
            work.next(host)
    assert sorted(done) == list(range(10))
