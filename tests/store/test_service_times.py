"""Service times of requests: solo trials under closed loads, by block."""

from types import SimpleNamespace

import duckdb
import pytest

from cotenant.store.service_times import FEWEST_PAUSES, POINTS, after_pauses, service_times


def opened(*rows):
    """Trials of one tenant: block, solo, verdict, load, and request times in ns."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE trials (run VARCHAR, trial INT, block INT, solo BOOL, verdict VARCHAR, load VARCHAR, "
        "settings VARCHAR)"
    )
    con.execute(
        "CREATE TABLE tenants (run VARCHAR, trial INT, tenant VARCHAR, workload VARCHAR, batch INT, seq INT, "
        'dtype VARCHAR, threads INT, software VARCHAR, "of" VARCHAR, load VARCHAR)'
    )
    con.execute(
        "CREATE TABLE requests (run VARCHAR, trial INT, tenant VARCHAR, seq INT, in_window BOOL, ok BOOL, "
        "intended_ns BIGINT, started_ns BIGINT, first_ns BIGINT, done_ns BIGINT, tokens_out INT)"
    )
    for trial, (block, solo, verdict, load, times) in enumerate(rows):
        con.execute("INSERT INTO trials VALUES ('r', ?, ?, ?, ?, ?, NULL)", [trial, block, solo, verdict, load])
        con.execute("INSERT INTO tenants VALUES ('r', ?, 'a', 'bert', 1, NULL, 'float32', 1, NULL, 'a', NULL)", [trial])
        for number, took in enumerate(times):
            values = [trial, number, 100 + took // 4, 100 + took]
            con.execute("INSERT INTO requests VALUES ('r', ?, 'a', ?, true, true, 100, 100, ?, ?, 4)", values)
    return SimpleNamespace(con=con, folders={"r": SimpleNamespace(manifest={})})


def test_blocks_are_kept_apart_and_trials_that_do_not_count_are_left_out():
    runs = opened(
        (0, True, "valid", "closed(1)", [1000, 3000]),
        (1, True, "unstable", "closed(1)", [4000]),
        (1, True, "invalid", "closed(1)", [900_000]),
        (1, False, "valid", "closed(1)", [800_000]),
        (2, True, "valid", "poisson(3)", [700_000]),
    )
    ((key, name),) = service_times(runs)
    found = service_times(runs)[key, name]
    assert (key.workload, name) == ("bert", "a")
    assert found.means_s == pytest.approx((2e-6, 4e-6))
    assert found.drawn_s.shape == (2, POINTS)
    assert found.requests == (2, 1)
    assert found.outputs == 4
    assert found.first_s == pytest.approx((0.5e-6 + 1e-6) / 2)
    assert found.step_s == pytest.approx((0.5e-6 + 1e-6) / 2)


def test_requests_after_a_pause_are_those_that_came_while_nothing_ran():
    runs = opened((0, True, "valid", "poisson(3)", []))
    for number in range(2 * FEWEST_PAUSES + 2):
        due = number // 2 * 1000
        second = number % 2 == 1  # comes while the first one runs
        values = [number, due + 10 * second, due + 100 * second, due + (130 if second else 100)]
        runs.con.execute("INSERT INTO requests VALUES ('r', 0, 'a', ?, true, true, ?, ?, NULL, ?, 1)", values)
    (drawn,) = after_pauses(runs).values()
    assert drawn == pytest.approx(100e-9)


def test_a_few_requests_after_a_pause_say_nothing():
    assert not after_pauses(opened((0, True, "valid", "poisson(3)", [1000] * 5)))
