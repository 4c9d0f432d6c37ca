"""`make validate`: a table, JSON, a page, exit codes, and sentences for data that is absent or damaged."""

import json

import pytest

from cotenant.cli.main import main
from cotenant.errors import DataError
from validation import runner
from validation.__main__ import command
from validation.page import figures, markdown
from validation.reading import number, read_json, read_table
from validation.result import Measure, Result, Row, Target
from validation.tables import target, verdict

RESULT = Result(
    data_set="demo",
    what="a | b",
    source="somebody",
    split="All held out.",
    quantity="time",
    unit="ms",
    rows=(Row("x", 1.0, 1.1, {"constant": 2.0}), Row("y", 100.0, 90.0, {"constant": 2.0}, held_out=False)),
    measures=(Measure("error", 10.0, "%", 1, Target(high=8), baselines={"constant": 100.0}),),
)


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.setattr(runner, "run", lambda data, only=(), among=(): iter((RESULT,)))


def test_a_missed_target_is_exit_code_3_and_is_named(demo, tmp_path, capsys):
    assert main(["--data", str(tmp_path)], command=command, name="validation") == 3
    assert "0 of 1 targets are reached; missed: error (demo)." in capsys.readouterr().out


def test_json_has_rows_measures_and_targets(demo, tmp_path, capsys):
    assert main(["--data", str(tmp_path), "--json"], command=command, name="validation") == 3
    data = json.loads(capsys.readouterr().out)
    assert data["missed"] == 1
    assert data["results"][0]["measures"][0]["reached"] is False
    assert data["results"][0]["rows"][1]["held_out"] is False


def test_the_page_has_a_table_and_a_figure_and_no_path_of_the_machine(demo, tmp_path, capsys):
    page = tmp_path / "out" / "validation.md"
    main(["--data", str(tmp_path), "--write", str(page)], command=command, name="validation")
    text = page.read_text()
    assert "| error | 10.0 % | – | constant: 100 % | ≤ 8 % | **no** |" in text  # noqa: RUF001 - a dash is shown
    assert "a \\| b" in text
    assert str(tmp_path) not in text
    assert (page.parent / "validation" / "demo-1.svg").read_text().startswith("<svg")


def test_figures_are_well_formed_and_mark_fitted_rows():
    from xml.etree import ElementTree as ET

    [svg] = figures([RESULT], folder="f").values()
    dots = [node for node in ET.fromstring(svg).iter() if node.tag.endswith("circle")]
    assert [dot.get("class") for dot in dots] == ["out", "fit"]
    assert "f/demo-1.svg" in markdown([RESULT], folder="f")


def test_targets_read_as_people_write_them():
    def shown(low, high, unit="%"):
        return target(Measure("m", 1.0, unit, 1, Target(low, high)))

    inf = float("inf")
    assert (shown(-inf, 8), shown(0.97, inf, ""), shown(7.7, 9.7)) == ("≤ 8 %", "≥ 0.97", "7.7 to 9.7 %")
    assert verdict([]) == "0 of 0 targets are reached."


def test_an_absent_folder_is_one_sentence_and_exit_code_1(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "nothing")], command=command, name="validation") == 1
    assert "There is no folder" in capsys.readouterr().err


def test_an_unknown_data_set_gets_the_nearest_name():
    with pytest.raises(DataError) as refused:
        runner.chosen(["longhorm"])
    assert refused.value.hint == "did you mean 'longhorn'?"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no t.csv"), ("a,b\n1,2\n", "no column 'c'"), ("a,c\n", "no rows"), (b"\xff\xfe\x00c", "can't be read")],
)
def test_damaged_tables_are_refused_with_the_file_and_what_is_wrong(tmp_path, content, words):
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=words):
        read_table(tmp_path, "t.csv", ("a", "c"))


def test_cells_and_json_files_are_checked_too(tmp_path):
    (tmp_path / "j.json").write_text("{")
    with pytest.raises(DataError, match=r"j\.json can't be read"):
        read_json(tmp_path, "j.json")
    for text in ("", "x", "nan", "inf"):
        with pytest.raises(DataError, match="should hold a number"):
            number(text, "t.csv", "a")
    assert number("1.5", "t.csv", "a") == 1.5


def test_an_unwritable_path_is_one_sentence(demo, tmp_path, capsys):
    command_line = ["--data", str(tmp_path), "--write", "/dev/null/such.md"]
    assert main(command_line, command=command, name="validation") == 1
    assert "can't write" in capsys.readouterr().err
