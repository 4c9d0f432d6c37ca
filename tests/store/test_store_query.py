"""SQL over runs: any SELECT, read-only."""

import subprocess
import sys

import pytest

from cotenant.errors import QueryError
from cotenant.store import query, views
from cotenant.store.folder import RunFolder
from cotenant.store.query import sql
from tests.store.synthetic import trial

TABLES = "Tables: trials, tenants, requests, stages, samples, kernels. For the columns of one: DESCRIBE requests"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = RunFolder.create(tmp_path_factory.mktemp("query") / "it's a *run*", {"run": "r1"})
    run.commit(trial(0))
    return run.path


def refused(text, run) -> tuple[str, str]:
    with pytest.raises(QueryError) as caught:
        sql(text, [run])
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("SELECT count(*) AS n FROM requests", ("n",), ((8,),)),
        ("with a as (from trials) select run, mix from a;", ("run", "mix"), (("r1", "bert-mini+gpt2-mini"),)),
        ("FROM trials SELECT failed_checks", ("failed_checks",), (([],),)),
        ("select 1 where false -- nothing", ("1",), ()),
        ('SELECT "order" FROM trials', ("order",), ((0,),)),
    ],
)
def test_a_select_is_answered(run, text, columns, rows):
    answer = sql(text, [run])
    assert (answer.columns, answer.rows) == (columns, rows)


def test_tables_and_columns_can_be_listed(run):
    assert {row[0] for row in sql("SHOW TABLES", [run]).rows} == {
        "trials", "tenants", "requests", "stages", "samples", "kernels",
    }  # fmt: skip
    assert "intended_ns" in {row[0] for row in sql("DESCRIBE requests", [run]).rows}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("COPY trials TO '/tmp/x.csv'", "COPY"),
        ("ATTACH '/tmp/x.db'", "ATTACH"),
        ("INSTALL httpfs", "LOAD"),
        ("LOAD httpfs", "LOAD"),
        ("PRAGMA database_list", "PRAGMA"),
        ("SET threads = 9", "SET"),
        ("CREATE TABLE x (a INTEGER)", "CREATE"),
        ("DROP VIEW trials", "DROP"),
        ("DELETE FROM trials", "DELETE"),
        ("CALL pragma_version()", "CALL"),
        ("EXPLAIN ANALYZE COPY trials TO '/tmp/x.csv'", "EXPLAIN"),
    ],
)
def test_anything_but_a_select_is_refused(run, text, kind):
    message, _ = refused(text, run)
    assert message == f"Runs are read-only: {kind} is not allowed, only SELECT."


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('/etc/passwd')",
        "read_text('/etc/passwd')",
        "read_blob('/etc/passwd')",
        "'/tmp/x.parquet'",
        "glob('/etc/*')",
        "sniff_csv('/etc/passwd')",
        "parquet_metadata('/tmp/x.parquet')",
        "query('FROM read_text(''/etc/passwd'')')",
        "read_csv('https://example.org/x.csv')",
    ],
)
def test_no_other_file_can_be_read(run, source):
    message, _ = refused(f"SELECT * FROM {source}", run)
    assert message.startswith("Only the runs' own tables can be read"), message


def test_a_file_cannot_be_used_as_a_table(run):
    assert refused("SELECT * FROM '/etc/passwd'", run)[0] == (
        "Table with name /etc/passwd does not exist (line 1, column 15)."
    )


def test_the_manifest_cannot_be_used_as_a_table(run):
    quoted = str(run).replace("'", "''")
    message, _ = refused(f"FROM read_text('{quoted}/manifest.json')", run)
    assert message == "Only the runs' own tables can be read (line 1, column 6)."


def test_variables_of_the_program_cannot_be_used_as_tables(run):
    secret = {"a": [1]}
    message, _ = refused("SELECT * FROM secret", run)
    assert message == "Table with name secret does not exist (line 1, column 15)."
    assert secret


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "Expected one SELECT, found no statements.", TABLES),
        ("SELECT 1; SELECT 2", "Expected one SELECT, found 2 statements.", TABLES),
        ("SELEC 1", 'syntax error at or near "SELEC" (line 1, column 1).', TABLES),
        (
            "SELECT * FROM request",
            "Table with name request does not exist (line 1, column 15).",
            f"Did you mean requests? {TABLES}",
        ),
        (
            "SELECT trial,\n  'é', dona_ns\nFROM requests",
            'Referenced column "dona_ns" not found in FROM clause (line 2, column 8).',
            f"Did you mean done_ns (in requests)? {TABLES}",
        ),
        (
            "SELECT verdikt FROM requests",
            'Referenced column "verdikt" not found in FROM clause (line 1, column 8).',
            f"Did you mean verdict (in trials)? {TABLES}",
        ),
        (
            "SELECT medain(seq) FROM requests",
            "Scalar Function with name medain does not exist (line 1, column 8).",
            None,
        ),
        (
            "SELECT 'x'::INTEGER FROM trials",
            "Could not convert string 'x' to INT32 (line 1, column 11).",
            None,
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_a_hint(run, text, message, hint):
    said, way_out = refused(text, run)
    assert said == message
    if hint:
        assert way_out == hint


def test_a_misspelt_function_gets_a_suggestion(run):
    _, hint = refused("SELECT medain(seq) FROM requests", run)
    assert hint.startswith("Did you mean median? ")


def test_memory_is_limited(run, monkeypatch):
    monkeypatch.setattr(views, "MEMORY_LIMIT", "32MiB")
    message, hint = refused("SELECT list(range) FROM range(10_000_000)", run)
    assert message == "The query needs more than 32MiB of memory."
    assert hint == "Select fewer columns or rows, or group."


def test_an_endless_answer_is_refused(run, monkeypatch):
    monkeypatch.setattr(query, "MOST_ROWS", 1000)
    message, hint = refused("SELECT * FROM range(1001)", run)
    assert message == "The query returns more than 1,000 rows."
    assert hint == "Aggregate, add a LIMIT, or export the table."
    assert len(sql("SELECT * FROM range(1000)", [run]).rows) == 1000


def test_time_is_limited(run):
    with pytest.raises(QueryError, match=r"^The query took longer than 0\.3 s\."):
        sql("SELECT count(*) FROM range(100000000000)", [run], limit_s=0.3)


GROWTH = """
import resource, sys
from cotenant.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


def test_a_single_expression_cannot_exceed_the_memory_limit(run):
    """The database doesn't count the memory of single values, but the process must still not grow without limit."""
    asked = ["sql", "select sum(length(repeat('ab', 400000000))) from range(20)", str(run)]
    done = subprocess.run([sys.executable, "-c", GROWTH, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "of memory" in done.stderr
    assert int(done.stdout) < 1300, "MiB"
