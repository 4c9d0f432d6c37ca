"""Pages made of elements in Chromium: no complaints, nothing cut off on a phone, axe finds nothing."""

from importlib import resources

import pytest

from cotenant.reporting.elements import Bullet, DataTable, Remark, Section, Sentence, Sentences, TableCell
from cotenant.reporting.elements.html import page
from cotenant.tenancy.interval import Interval
from tests.reporting.test_elements import EVERY, watched
from tests.support.browser import NEEDS_CHROMIUM, complaints_of, launched

pytestmark = NEEDS_CHROMIUM

PLAN = [
    Section(
        "The plan",
        "plan",
        (
            Sentence("1 x big, $2.74/h: keeps every objective.", "good"),
            DataTable(("device", "compute"), (("big#0", TableCell("54 %", part=0.54)),)),
            DataTable(
                ("tenant", "predicted ms"),
                (
                    ("embed", TableCell("11 [4, 40]", bullet=Bullet(Interval(11, 4, 40), 60))),
                    ("", TableCell("a second objective", bullet=Bullet(Interval(11, 4, 40), 60))),
                ),
                numbers=frozenset({"predicted ms"}),
            ),
        ),
    ),
    Section("Why this plan", "why", (Sentences(("no plan is better",)), Sentence("cotenant run x", command=True))),
]
MAP = [
    Sentence("The best is a + b.", "answer"),
    DataTable(
        ("tenant", "beside a", "beside b"),
        tuple(
            (
                name,
                *(TableCell("1.20", "1.1 to 1.3", warmth=0.3, hatched=hatched, hint="predicted") for hatched in (0, 1)),
            )
            for name in "ab"
        ),
        "pairs under mps",
        numbers=frozenset({"beside a", "beside b"}),
    ),
    Remark("Hatched cells are predicted."),
]


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plan", "map", "watched", "every kind"])
def test_axe_finds_nothing_and_nothing_is_cut_off_on_a_phone(browser, tmp_path, name, scheme):
    pytest.importorskip("axe_playwright_python", reason="axe is not installed: cotenant[browser]")
    elements = {"plan": PLAN, "map": MAP, "every kind": EVERY[:3]}.get(name) or watched()
    file = tmp_path / "page.html"
    file.write_text(page(elements, title="A page", brand="cotenant", simulated="A model did."), encoding="utf-8")
    for width in (1280, 390):
        shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        complaints = complaints_of(shown)
        shown.goto(file.as_uri())
        shown.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
        found = shown.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert complaints == []
        shown.close()
