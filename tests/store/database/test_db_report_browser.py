"""The page of `cotenant db report` in a browser. Skipped without Chromium or Playwright."""

import pytest

import cotenant
from tests.store.database.database_material import longhorn
from tests.support.browser import NEEDS_CHROMIUM, complaints_of

pytestmark = NEEDS_CHROMIUM
WORKS = ("sgemm", "bert training", "resnet training")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("db")
    files = [longhorn(folder / f"{number}.csv", gpus=6, runs=4, work=work) for number, work in enumerate(WORKS)]
    cotenant.db.add(files, db=folder / "db")
    return cotenant.db.report(folder / "page.html", db=folder / "db")


@pytest.fixture
def visit(chromium, page):
    opened = []

    def go(**context):
        opened.append(chromium.new_context(offline=True, **context))
        seen = opened[-1].new_page()
        complaints = complaints_of(seen)
        seen.goto(page.as_uri())
        return seen, complaints

    yield go
    for one in opened:
        one.close()


def test_kinds_of_work_can_be_narrowed_by_name(visit):
    seen, complaints = visit()
    lines = seen.locator("table[data-filtered] tbody tr:visible")
    assert lines.count() == 3
    seen.get_by_label("Work with").fill("train")
    assert sorted(lines.locator("th").all_inner_texts()) == ["bert training", "resnet training"]
    assert seen.locator("#filter-count").inner_text() == "2 of 3"
    seen.get_by_label("Work with").fill("train res")
    assert lines.locator("th").all_inner_texts() == ["resnet training"]
    lines.locator("summary").click()
    assert "% " in lines.locator("details").inner_text()
    seen.get_by_label("Work with").fill("")
    assert lines.count() == 3
    assert seen.locator("#filter-count").inner_text() == ""
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_table_is_cut_on_a_phone(visit, scheme):
    seen, complaints = visit(viewport={"width": 400, "height": 860}, color_scheme=scheme)
    assert seen.evaluate("document.documentElement.scrollWidth") <= 400
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert seen.evaluate(cut) == 0
    assert complaints == []
