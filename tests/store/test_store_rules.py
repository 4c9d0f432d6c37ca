"""Rules of the store in the small: names of folders, counts of requests, and kernels of tenants, by hand."""

import sqlite3

import numpy as np
import pytest

from cotenant.store import counting, folder
from cotenant.store.imports import nsys
from cotenant.tenancy.records import MISSING_NS, TrialRecords

# --- names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("BERT & GPT-2", "bert-gpt-2"),
        ("Ä/ö", "a-o"),
        ("...", "study"),
        ("x" * 60, "x" * 48),
        ("a" * 47 + "-b", "a" * 47),
        ("--a--", "a"),
    ],
)
def test_a_study_becomes_a_folder(name, safe):
    assert folder.slug(name) == safe


@pytest.mark.parametrize(
    ("trials", "name"),
    [
        ([7], "000007"),
        ([12, 13, 14, 17], "000012-000014+000017"),
        ([3, 1], "000001+000003"),
        ([0, 1], "000000-000001"),
        ([1_000_000], "1000000"),
    ],
)
def test_trials_name_their_folder(trials, name):
    assert folder.chunk_name(trials) == name
    assert folder.trials_in(name) == tuple(sorted(trials))


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "7",
        "000002-000001",
        "000001-000001",
        "000001+000002",
        "000001-",
        "000000-004096",
        "x000001",
        "+".join(f"{2 * i:06d}" for i in range(40)),
    ],
)
def test_other_names_hold_no_trials(bad):
    assert folder.trials_in(bad) == ()


def test_trials_are_numbered_from_zero_and_folders_hold_at_most_4096():
    assert len(folder.trials_in("000000-004095")) == 4096
    with pytest.raises(ValueError, match="from 0"):
        folder.chunk_name([-1])


# --- counts

MS = 1_000_000


def requests(**columns):
    return TrialRecords(
        trial={
            "trial": 3,
            "block": 1,
            "mix": "a+b",
            "sharing": "mps",
            "settings": "",
            "load": "closed(1)",
            "device": "cpu",
            "verdict": "valid",
            "window_s": 2.0,
        },
        tenants=(
            {"tenant": "b", "of": "b"},
            {
                "tenant": "a",
                "of": "a",
                "slo_ms": 10.0,
                "ttft_slo_ms": 3.0,
                "tpot_slo_ms": 2.0,
                "load": "poisson(5)",
                "params": 9,
            },
        ),
        requests={name: np.array(values) for name, values in columns.items()},
    )


def test_requests_of_a_trial_are_counted_by_tenant():
    records = requests(
        tenant=[1, 1, 1, 1, 1, 1, 0],
        in_window=[True, True, True, True, True, False, True],
        ok=[True, True, True, False, True, True, True],
        seq=[0, 1, 2, 3, 4, 5, 0],
        intended_ns=[0, 0, 0, 0, 0, 0, 5 * MS],
        started_ns=[2, 1, 3, 4, 5, 0, 6 * MS],
        first_ns=[3 * MS, 4 * MS, 2 * MS, 1, 1 * MS, 1, MISSING_NS],
        done_ns=[10 * MS, 11 * MS, 8 * MS, 9 * MS, MISSING_NS, 1, 7 * MS],
        device_ns=[5, 6, MISSING_NS, 7, 8, 9, 4],
        tokens_out=[4, 4, 1, 2, 2, 2, MISSING_NS],
    )
    (mine, latency, times), (other, _, none) = counting.count_trial(records, "r")
    assert (mine.tenant, other.tenant) == ("a", "b")
    assert (mine.n, mine.due, mine.never_done) == (3, 5, 1)
    assert latency.tolist() == [10 * MS, 11 * MS, 8 * MS]
    assert (mine.latency_ns, mine.device_ns, mine.device_n) == (29 * MS, 11, 2)
    assert (mine.slo_met, mine.ttft_met, mine.tpot_met, mine.all_met) == (2, 2, 1, 1)
    assert (mine.first_started_ns, mine.last_done_ns) == (1, 11 * MS)
    assert (mine.closed, other.closed, mine.software, other.software) == (False, True, "eager", None)
    assert times.ttft_ns.tolist() == [3 * MS, 4 * MS, 2 * MS]
    assert times.tpot_ns.tolist() == [round(7 * MS / 3), round(7 * MS / 3)]
    assert (mine.tokens_out, other.tokens_out, none) == (9, None, None)
    assert (other.slo_met, other.all_met, other.latency_ns, other.n) == (0, 1, 2 * MS, 1)
    assert mine.ttft_ns == pytest.approx(3 * MS)
    assert mine.trial == 3
    assert mine.window_s == 2.0


def test_limits_are_kept_to_the_nanosecond_and_times_between_tokens_belong_to_served_requests():
    records = requests(
        tenant=[1, 1],
        in_window=[1, 1],
        ok=[1, 1],
        seq=[0, 1],
        intended_ns=[0, 0],
        first_ns=[1, 1],
        done_ns=[10 * MS, 10 * MS + 1],
        tokens_out=[2, 2],
    )
    records = TrialRecords(
        trial=records.trial,
        tenants=records.tenants,
        requests=records.requests,
        stages={
            "tenant": np.array(["a", "a", "b"]),
            "stage": np.array([counting.TOKEN_STAGES[0]] * 3),
            "seq": np.array([0, 9, 0]),
            "duration_ns": np.array([5, 6, 7]),
        },
    )
    (mine, _, times), _ = counting.count_trial(records, "r")
    assert mine.slo_met == 1
    assert np.concatenate(
        [getattr(times, name) for name in times.__slots__ if name not in {"ttft_ns", "tpot_ns"}]
    ).tolist() == [5]


# --- kernels of a profile


def database(ranges, launches=()):
    db = sqlite3.connect(":memory:")
    db.execute('CREATE TABLE NVTX_EVENTS (globalTid, start, "end", text)')
    db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?)", ranges)
    db.execute(f"CREATE TABLE {nsys.RUNTIME} (globalTid, correlationId, start)")
    db.executemany(f"INSERT INTO {nsys.RUNTIME} VALUES (?, ?, ?)", launches)
    db.execute("CREATE TABLE PROCESSES (globalPid, name)")
    db.execute("INSERT INTO PROCESSES VALUES (?, ?)", (9 * nsys._ID, "/usr/bin/python"))
    return db, {"NVTX_EVENTS", nsys.RUNTIME, "PROCESSES"}


def test_kernels_belong_to_the_tenant_whose_range_launched_them():
    one, two = 5 * nsys._ID + 1, 5 * nsys._ID + 2
    ranges = [
        (one, 0, 100, "cotenant:a"),
        (two, 50, None, "cotenant:b"),
        (6 * nsys._ID, 0, 9, "cotenant:c"),
        (one, 0, 9, "other"),
    ]
    db, tables = database(ranges, [(one, 1, 100), (one, 2, 101), (two, 3, 49), (two, 4, 50)])
    pids = [5 * nsys._ID] * 4 + [6 * nsys._ID, 9 * nsys._ID, 8 * nsys._ID]
    found = nsys.attribute(db, tables, pids, [1, 2, 3, 4, 7, 8, 9], [0, 0, 3, 3, 0, 0, 0])
    assert found == ["a", "a", "b", "b", "c", "python (9)", "process 8"]
    assert nsys._open_at([(0, 10, "a"), (20, 30, "b")], 10) == "a"
    assert [nsys._open_at([(0, 10, "a"), (20, 30, "b")], at) for at in (11, 20, 31, -1)] == [None, "b", None, None]
