"""Results as tables: through Arrow into data frames, and as HTML in a notebook."""

import sys
from dataclasses import dataclass

import pytest

from cotenant.analyse.tabular import Row, Tabular
from cotenant.errors import CotenantError


@dataclass(frozen=True)
class Two(Tabular):
    def rows(self) -> list[Row]:
        return [{"mix": "<a>+b", "slowdown": 1.5}, {"mix": "c", "slowdown": None}]


def test_a_result_becomes_an_arrow_table():
    pytest.importorskip("pyarrow")
    assert Two().to_arrow().to_pydict() == {"mix": ["<a>+b", "c"], "slowdown": [1.5, None]}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_result_becomes_a_data_frame(library):
    pytest.importorskip("pyarrow")
    pytest.importorskip(library)
    frame = getattr(Two(), f"to_{library}")()
    assert list(frame.columns) == ["mix", "slowdown"]
    assert frame.shape == (2, 2)


@pytest.mark.parametrize(("form", "missing"), [("arrow", "pyarrow"), ("pandas", "pandas"), ("polars", "polars")])
def test_a_library_that_is_not_installed_is_named(monkeypatch, form, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(CotenantError, match=f"{missing} is not installed") as caught:
        getattr(Two(), f"to_{form}")()
    assert "pip install" in caught.value.hint


def test_a_notebook_shows_a_table_with_names_as_text():
    shown = Two()._repr_html_()
    assert "<th>slowdown</th>" in shown
    assert "&lt;a&gt;+b" in shown
    assert "<a>" not in shown


@pytest.mark.parametrize(
    ("count", "shown", "rest"), [(0, 0, ""), (100, 100, ""), (1234, 100, "<p>1,134 more rows</p>")]
)
def test_a_notebook_shows_a_hundred_rows_and_counts_the_others(count, shown, rest):
    class Many(Tabular):
        def rows(self) -> list[Row]:
            return [{"n": number, "x": None} for number in range(count)]

    html = Many()._repr_html_()
    assert html.count("<td>") == 2 * shown
    assert html.endswith(f"</table>{rest}")
