"""Records arrive in the tables with their types; missing values are NULL."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest

from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TABLES, TrialRecords
from tests.store.synthetic import connect, trial


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "run", {"run": "r1"})


def stored(run, query):
    with connect([run.path]) as con:
        return con.execute(query).fetchall()


def everything(number: int = 0) -> TrialRecords:
    """A trial with rows in every table."""
    return replace(
        trial(number),
        stages={
            "tenant": np.array([1]),
            "seq": np.array([0]),
            "stage": np.array(["décode"]),
            "start_ns": np.array([5]),
        },
        samples={
            "device": np.array(["cpu"] * 2),
            "sensor": np.array(["psi", "temp"]),
            "value": np.array([0.5, np.nan]),
        },
        kernels={"tenant": np.array(["gpt2-mini"]), "name": np.array(["gemm"]), "duration_ns": np.array([9])},
    )


@pytest.mark.parametrize("table", TABLES)
def test_files_have_every_column_with_its_type(run, table):
    run.commit(everything())
    described = duckdb.sql(f"DESCRIBE FROM '{run.path}/trials/000000/{table}.parquet'").fetchall()
    assert [row[:2] for row in described] == [(column.name, column.type) for column in TABLES[table]]


def test_files_are_compressed_with_zstd(run):
    run.commit(everything())
    used = duckdb.sql(f"SELECT DISTINCT compression FROM parquet_metadata('{run.path}/trials/*/*.parquet')").fetchall()
    assert used == [("ZSTD",)]


def test_missing_times_are_null_in_requests_only(run):
    records = trial(tenants=("a",), requests=2)
    requests = dict(records.requests, done_ns=np.array([2_000_000_000, -1]), seq=np.array([-1, 1]))
    run.commit(replace(records, requests=requests))
    assert stored(run, "SELECT seq, first_ns, done_ns FROM requests") == [(-1, None, 2_000_000_000), (1, None, None)]


def test_a_missing_sensor_value_is_null(run):
    run.commit(everything())
    assert stored(run, "SELECT sensor, value, unit FROM samples") == [("psi", 0.5, None), ("temp", None, None)]


def test_rows_take_lists_numpy_scalars_and_quotes(run):
    nasty = """'; DROP TABLE trials; -- "x" <script>"""
    run.commit(trial(mix=nasty, failed_checks=["drift", nasty], seed=np.int64(2**40), solo=np.bool_(True)))
    assert stored(run, "SELECT mix, failed_checks, seed, solo, started_utc FROM trials") == [
        (nasty, ["drift", nasty], 2**40, True, None)
    ]


@pytest.mark.parametrize(
    "tenant",
    [
        np.array([0, 0, 1, 1], dtype=np.uint8),
        np.array([0, 0, 1, 1], dtype=np.int64),
        np.array(["it's", "it's", "b#2", "b#2"]),
        np.array(["it's", "it's", "b#2", "b#2"], dtype=object),
    ],
    ids=["bytes", "integers", "text", "objects"],
)
def test_tenants_come_as_positions_or_as_names(run, tenant):
    records = trial(tenants=("it's", "b#2"), requests=2)
    run.commit(replace(records, requests=dict(records.requests, tenant=tenant)))
    assert stored(run, "SELECT tenant, count(*) FROM requests GROUP BY ALL ORDER BY 1") == [("b#2", 2), ("it's", 2)]


def test_fields_of_a_structured_array_and_reversed_views_are_read_right(run):
    shared = np.zeros(3, dtype=[("seq", "i8"), ("ok", "u1"), ("done", "i8")])
    shared["seq"], shared["ok"], shared["done"] = [1, 2, 3], [1, 0, 1], [10, 20, 30]
    records = trial(tenants=("a",), requests=0)
    requests = {
        "tenant": np.zeros(3, np.uint8),
        "seq": shared["seq"],
        "ok": shared["ok"],
        "done_ns": shared["done"][::-1],
    }
    run.commit(replace(records, requests=requests))
    assert stored(run, "SELECT seq, ok, done_ns, in_window FROM requests") == [
        (1, True, 30, None),
        (2, False, 20, None),
        (3, True, 10, None),
    ]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"seq": np.arange(3)}, ValueError, "the columns of requests differ in length"),
        ({"tenant": np.full(8, 2)}, ValueError, "positions outside the trial's 2 tenants"),
        ({"tenant": np.full(8, -1)}, ValueError, "positions outside the trial's 2 tenants"),
        ({"sequence": np.arange(8)}, ValueError, "requests has no column 'sequence'"),
        ({"seq": np.ma.masked_all(8, np.int64)}, TypeError, "'seq' is a masked array"),
        ({"seq": np.zeros((8, 1))}, ValueError, "the columns of requests differ in length"),
    ],
)
def test_invalid_columns_are_refused_and_nothing_is_written(run, change, error, said):
    records = trial()
    with pytest.raises(error, match=said):
        run.commit(replace(records, requests=dict(records.requests, **change)))
    assert run.committed() == frozenset()


def test_a_run_knows_its_trial_numbers_and_identity_itself(run):
    run.commit(everything(5))
    for table in TABLES:
        assert stored(run, f"SELECT DISTINCT run, trial FROM {table}") == [("r1", 5)]
