"""Tables of others beside a database: recognised, kept once, and listed."""

import pytest

from cotenant.errors import DataError
from cotenant.store.database import index
from cotenant.store.database.additions import add_tables, kept_tables, split_tables

HEADER = "tenant,neighbours,sharing,alone_ms,shared_ms,device\n"
ROWS = "a,b,mps,10,12,sim:x\nb,a,mps,20,30,sim:x\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text(HEADER + ROWS)
    return path


def test_tables_are_told_from_other_files(tmp_path, table):
    other = tmp_path / "log.csv"
    other.write_text("timestamp,power\n")
    text = tmp_path / "theirs.txt"
    text.write_text(HEADER + ROWS)
    upper = tmp_path / "UPPER.CSV"
    upper.write_text("\ufeff" + HEADER + ROWS)
    others, tables = split_tables([other, table, text, tmp_path, upper])
    assert others == [other, text, tmp_path]
    assert [(path, found.device) for path, found in tables] == [(table, "sim:x"), (upper, "sim:x")]


def test_a_table_must_name_its_device(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("tenant,neighbours,sharing,alone_ms,shared_ms\na,b,mps,10,12\nb,a,mps,20,30\n")
    with pytest.raises(DataError, match="doesn't say which device"):
        split_tables([path])


def test_a_table_is_kept_once_whatever_its_name(tmp_path, table):
    home = tmp_path / "home" / "db"
    (added,) = add_tables(split_tables([table])[1], home)
    assert (added.how, added.source.kind, added.source.name) == ("added", "table", "theirs.csv")
    assert (added.source.measurements, added.source.readings, added.source.gpus) == (4, 0, 1), "2 times and 2 slowdowns"
    assert len(added.source.key) == 24, "12 bytes"
    assert index.read(home) == {}, "it is a database now"
    table = table.rename(table.with_name("again.csv"))
    (again,) = add_tables(split_tables([table])[1], home)
    assert (again.how, again.source.key) == ("known", added.source.key)
    (kept,) = kept_tables(home)
    assert (kept.name, kept.key, kept.measurements) == ("theirs.csv", added.source.key, 4)
    assert kept.added_utc == added.source.added_utc
    table.write_text(HEADER + ROWS.replace("12", "13"))
    (changed,) = add_tables(split_tables([table])[1], home)
    assert (changed.how, len(kept_tables(home))) == ("added", 2)


def test_no_tables_make_no_database(tmp_path):
    assert add_tables([], tmp_path / "db") == ()
    assert not (tmp_path / "db").exists()


def test_a_table_leaves_the_sources_of_a_database_alone(tmp_path, table):
    home = tmp_path / "db"
    home.mkdir()
    known = {"k": index.Source("k", "1", "n", "run", "2026-01-01", measurements=1, readings=0, gpus=1)}
    index.write(home, known)
    add_tables(split_tables([table])[1], home)
    assert index.read(home) == known


def test_a_first_line_without_an_end_is_no_table(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("x" * (1 << 16) + "," + HEADER)
    assert split_tables([path]) == ([path], [])
