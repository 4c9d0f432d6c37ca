"""Text files line by line: cells, what makes a line bad and where, and the fast reader that agrees or gives up."""

import math

import duckdb
import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.store.imports import lines
from cotenant.store.imports.lines import Sheet, SheetCell, head, read_lines, text_cell

NAME = SheetCell("name", "the name", text_cell(1), "category")
VALUE = SheetCell("value", "the value", text_cell(2), "number")
MAYBE = SheetCell("maybe", "the other", text_cell(3), "number", required=False)
NOTE = SheetCell("note", "the note", text_cell(4), "text", required=False)
TIME = SheetCell("t_ns", "the time", text_cell(5), "time")
CELLS = (NAME, VALUE, MAYBE, NOTE, TIME)
GOOD = "a,1.5,2,x,2026/01/01 00:00:01.500"


def written(tmp_path, *rows, end="\n"):
    path = tmp_path / "file.csv"
    path.write_bytes(("\n".join(("name,value,maybe,note,time", *rows)) + end).encode("utf-8", "surrogateescape"))
    return path


def read(path, *, skip_bad=False, **more):
    options = {"split": "string_split(line, ',')", "width": 5, "cells": CELLS, "first_line": 2} | more
    return read_lines(path, skip_bad=skip_bad, **options)


def test_every_kind_of_cell(tmp_path):
    table = read(written(tmp_path, GOOD, ' "b" ,2,N/A,,2026-01-01 00:00:02.000', "a,3,nan,y,01-01-2026 00:00:03"))
    assert table.categories == {"name": ("a", "b")}
    assert table.columns["name"].tolist() == [0, 1, 0]
    assert table.columns["value"].tolist() == [1.5, 2.0, 3.0]
    first, *missing = table.columns["maybe"].tolist()
    assert first == 2.0
    assert all(map(math.isnan, missing))
    assert table.columns["note"].tolist() == ["x", "", "y"]
    seconds = (table.columns["t_ns"] - table.columns["t_ns"][0]) / 1e9
    assert seconds.tolist() == [0.0, 0.5, 1.5]
    assert table.skipped == ()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("a,1,2,x", "not 5 cells"),
        (GOOD + ",more", "not 5 cells"),
        (",1,2,x,2026/01/01 00:00:01", "the name is empty"),
        ("a,x,2,x,2026/01/01 00:00:01", "the value is not a number"),
        ("a,,2,x,2026/01/01 00:00:01", "the value is not a number"),
        ("a,nan,2,x,2026/01/01 00:00:01", "the value is not a number"),
        ("a,inf,2,x,2026/01/01 00:00:01", "the value is not a number"),
        ("a,1,x,x,2026/01/01 00:00:01", "the other is not a number"),
        ("a,1,-inf,x,2026/01/01 00:00:01", "the other is not a number"),
        ("a,1,2,x,yesterday", "the time is not a time"),
        ("a,1,2,x,", "the time is not a time"),
    ],
)
def test_a_bad_line_is_refused_with_its_place_or_skipped(tmp_path, row, why):
    path = written(tmp_path, GOOD, row, GOOD)
    with pytest.raises(DataError) as refused:
        read(path)
    assert why in refused.value.message
    assert "line 3" in refused.value.message
    table = read(path, skip_bad=True)
    assert len(table.columns["value"]) == 2
    assert [(each.count, each.lines) for each in table.skipped] == [(1, (3,))]
    assert why in table.skipped[0].what


def test_blank_lines_and_ignored_ones_are_no_problem(tmp_path):
    table = read(written(tmp_path, "", GOOD, "   ", "# comment", GOOD, ""), ignore="line LIKE '#%'")
    assert (len(table.columns["value"]), table.skipped) == (2, ())


def test_a_last_line_without_an_end_may_be_cut_off_and_only_that(tmp_path):
    table = read(written(tmp_path, GOOD, GOOD[:9], end=""))
    assert len(table.columns["value"]) == 1
    assert [(each.what, each.lines) for each in table.skipped] == [("the last line was truncated", (3,))]
    assert len(read(written(tmp_path, GOOD, GOOD, end="")).columns["value"]) == 2
    assert len(read(written(tmp_path, GOOD, GOOD, end="\r")).columns["value"]) == 2
    for end in ("\n", "\r\n"):
        with pytest.raises(DataError, match="line 3"):
            read(written(tmp_path, GOOD, GOOD[:9], end=end))


def test_any_number_of_cells_if_none_is_asked(tmp_path):
    path = written(tmp_path, "a,1", "b,2,3,4")
    assert read(path, width=None, cells=(NAME, VALUE)).columns["value"].tolist() == [1.0, 2.0]


def test_bytes_that_are_no_text(tmp_path):
    path = written(tmp_path, GOOD, "a\udcff,1,2,x,2026/01/01 00:00:01")
    with pytest.raises(DataError, match="can't be read as text"):
        read(path)
    assert len(read(path, skip_bad=True).columns["value"]) == 2, "another encoding"


def test_a_category_has_few_values(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MOST_CATEGORIES", 2)
    rows = [GOOD.replace("a", name, 1) for name in "abc"]
    assert read(written(tmp_path, *rows[:2])).categories["name"] == ("a", "b")
    with pytest.raises(DataError, match="more than 2 different values of the name"):
        read(written(tmp_path, *rows))


def test_without_lines_there_are_no_values(tmp_path):
    table = read(written(tmp_path))
    assert (table.categories["name"], table.columns["value"].size) == ((), 0)


def test_the_first_lines(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\nc\xff")
    assert head(path, 2) == ["a", "b"]
    assert head(path, 9) == ["a", "b", "c\ufffd"]
    with pytest.raises(DataError, match="can't be read"):
        head(tmp_path / "none", 1)


# --- the fast reader


def fast(path, known=("name", "note")):
    """By name, the columns of the fast reader; None if it gives up."""
    sheet = Sheet(path, ("name", "value", "maybe", "note", "time"), dict(enumerate(CELLS, 1)), {})
    con = duckdb.connect()
    try:
        labels = sheet.labels(con, set(known))
        if labels is None:
            return None
        found = con.execute(sheet.all_or_error(labels)).fetchnumpy()
    except duckdb.Error:
        return None
    finally:
        con.close()
    return {name: np.ma.filled(values, -1.0 if name == "maybe" else None) for name, values in found.items()}


@pytest.mark.parametrize(
    "rows",
    [
        [GOOD],
        [" a,1, 2,x,2026/01/01 00:00:01", " b, 2 ,n/a,x,2026/01/01 00:00:02"],
        ['"a",1,"3",x, 2026/01/01 00:00:01 ', "b,2,nan,,2026/01/01 00:00:02"],
        ["a,1,[Not Supported],x,2026/01/01 00:00:01"],
    ],
)
def test_the_fast_reader_agrees_with_the_slow_one(tmp_path, rows):
    path = written(tmp_path, *rows)
    slow, quick = read(path), fast(path)
    assert quick is not None
    without = fast(path, known=("name",))
    assert {name: values.tolist() for name, values in without.items()} == {
        name: values.tolist() for name, values in quick.items()
    }, "whether or not a text is known"
    names = slow.categories["name"]
    assert quick["name"].tolist() == [names[code] for code in slow.columns["name"]]
    assert quick["value"].tolist() == slow.columns["value"].tolist()
    assert quick["maybe"].tolist() == np.nan_to_num(slow.columns["maybe"], nan=-1.0).tolist()
    assert quick["note"].tolist() == slow.columns["note"].tolist()
    assert quick["t_ns"].tolist() == slow.columns["t_ns"].tolist()


@pytest.mark.parametrize(
    "row",
    [
        "a,1,2,x",
        GOOD + ",1",
        ",1,2,x,2026/01/01 00:00:01",
        "a,x,2,x,2026/01/01 00:00:01",
        "a,inf,2,x,2026/01/01 00:00:01",
        "a,nan,2,x,2026/01/01 00:00:01",
        "a,1,z,x,2026/01/01 00:00:01",
        "a,1,inf,x,2026/01/01 00:00:01",
        "a,1,2,x,never",
        "a\0,1,2,x,2026/01/01 00:00:01",
    ],
)
def test_the_fast_reader_gives_up_at_the_first_line_that_is_not_perfect(tmp_path, row):
    assert fast(written(tmp_path, GOOD)) is not None
    assert fast(written(tmp_path, GOOD, row)) is None


def test_labels_are_trimmed_as_little_as_necessary(tmp_path):
    sheet = Sheet(written(tmp_path, GOOD), ("name", "value", "maybe", "note", "time"), dict(enumerate(CELLS, 1)), {})
    con = duckdb.connect()
    assert sheet.labels(con, set()) == {}
    assert sheet.labels(con, {"name"})["name"].sql == "c1"
    written(tmp_path, " a" + GOOD[1:], " b" + GOOD[1:])
    assert (sheet.labels(con, {"name"})["name"].sql, sheet.labels(con, {"name"})["name"].texts) == (
        "c1[2:]",
        ("a", "b"),
    )
    written(tmp_path, GOOD, " b" + GOOD[1:])
    assert "trim" in sheet.labels(con, {"name"})["name"].sql
    written(tmp_path, "  a" + GOOD[1:], " b" + GOOD[1:])
    assert "trim" in sheet.labels(con, {"name"})["name"].sql
    written(tmp_path)
    assert sheet.labels(con, {"name"}) is None, "no lines"
