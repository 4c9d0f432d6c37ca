"""The pages in a browser. Skipped without Chromium or Playwright."""

import re
from importlib import resources

import pytest

from tests.reporting.browser.view_runs import add_block, write_run
from tests.support.browser import NEEDS_CHROMIUM, complaints_of, playwright

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.long]
HOSTILE = '<img src=x onerror="window.hacked=1">\'</script><script>window.hacked=1</script>'


class Visit:
    """An open page, and its errors."""

    def __init__(self, browser, url, **context):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | context))
        self.page = self.context.new_page()
        self.complaints = complaints_of(self.page)
        self.page.goto(url)


@pytest.fixture
def visit(chromium):
    opened = []

    def go(url, **context):
        opened.append(Visit(chromium, url, **context))
        return opened[-1]

    yield go
    for one in opened:
        one.context.close()


def rows(page):
    return page.locator("table.runs tbody tr")


def test_the_filter_updates_while_typing_and_is_kept_in_the_address(site, visit):
    seen = visit(site.url)
    playwright.expect(rows(seen.page)).to_have_count(4)
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("tuesday")
    playwright.expect(rows(seen.page)).to_have_count(1)
    assert seen.page.url.endswith("?q=tuesday")
    seen.page.reload()
    playwright.expect(rows(seen.page)).to_have_count(1)
    seen.page.get_by_label("Find").fill("")
    seen.page.locator("select[name=state]").select_option("unreadable")
    playwright.expect(rows(seen.page)).to_have_count(1)
    playwright.expect(rows(seen.page)).to_contain_text("is corrupt")
    assert seen.complaints == []


def test_a_click_opens_the_report_and_its_figures_and_leads_back(site, visit):
    seen = visit(site.url)
    seen.page.get_by_role("link", name="pairs/monday").click()
    playwright.expect(seen.page.get_by_role("heading", name="The answer")).to_be_visible()
    seen.page.locator(".heat button").first.click()
    playwright.expect(seen.page.locator(".detail:not([hidden]) .drawing[data-drawn] svg").first).to_be_visible()
    seen.page.get_by_role("link", name="All runs").click()
    playwright.expect(rows(seen.page)).to_have_count(4)
    assert seen.complaints == []


def test_two_runs_are_chosen_by_keyboard_and_compared_even_if_filtered_out(site, visit):
    seen = visit(site.url)
    playwright.expect(seen.page.get_by_role("button", name="Compare")).to_be_disabled()
    seen.page.get_by_label("Choose pairs/monday").focus()
    seen.page.keyboard.press("Space")
    seen.page.get_by_label("Find").fill("tuesday")
    playwright.expect(rows(seen.page)).to_have_count(1)
    seen.page.get_by_label("Choose pairs/tuesday").check()
    playwright.expect(seen.page.locator("#count")).to_have_text("2 runs chosen.")
    seen.page.get_by_role("button", name="Compare").click()
    playwright.expect(seen.page.locator(".advice")).to_contain_text("Slower: a")
    seen.page.get_by_role("link", name="Reports side by side").click()
    playwright.expect(seen.page.get_by_role("heading", name="The answer")).to_be_visible()
    seen.page.get_by_role("link", name="Compare these").click()
    playwright.expect(seen.page.locator(".advice")).to_contain_text("Slower: a")
    assert seen.complaints == []


def test_a_run_in_progress_is_updated_without_a_reload(serve, tmp_path, visit):
    folder = write_run(tmp_path / "going", blocks=1, state="running", why="")
    site = serve(tmp_path)
    seen = visit(site.url)
    seen.page.get_by_role("link", name="going").click()
    playwright.expect(seen.page.locator("#standing")).to_contain_text("Block 1 of at least 3")
    seen.page.wait_for_timeout(300)
    add_block(folder, 1)
    playwright.expect(seen.page.locator("#standing")).to_contain_text("Block 2 of at least 3")
    folder.update_manifest(state="complete", why="precise enough")
    playwright.expect(seen.page.locator("#standing")).to_contain_text("precise enough")
    playwright.expect(seen.page.get_by_role("link", name=re.compile("^The report$"))).to_be_visible()
    assert seen.complaints == []


def test_the_list_and_the_empty_page_show_new_runs_and_keep_the_selection(serve, tmp_path, visit):
    site = serve(tmp_path)
    seen = visit(site.url)
    playwright.expect(seen.page.locator("main")).to_contain_text("This folder has no runs yet")
    seen.page.wait_for_timeout(300)
    write_run(tmp_path / "first", blocks=1)
    playwright.expect(rows(seen.page)).to_have_count(1)
    seen.page.get_by_label("Choose first").check()
    seen.page.wait_for_timeout(300)
    write_run(tmp_path / "second", day=2, blocks=1)
    playwright.expect(rows(seen.page)).to_have_count(2)
    playwright.expect(seen.page.get_by_label("Choose first")).to_be_checked()
    assert seen.complaints == []


def test_hostile_names_are_text(serve, tmp_path, visit):
    for day in (1, 2):
        write_run(tmp_path / f"<b>{day}", day=day, study=HOSTILE, device=HOSTILE, why=HOSTILE,
                  tenants={"a": HOSTILE, "b": "b"})  # fmt: skip
    site = serve(tmp_path)
    keys = [site.key(f"<b>{day}") for day in (1, 2)]
    for path in ("", f"run/{keys[0]}", f"run/{keys[0]}/progress", f"compare?run={keys[0]}&run={keys[1]}"):
        seen = visit(site.url + path)
        seen.page.wait_for_timeout(200)
        assert seen.page.evaluate("window.hacked") is None
        assert HOSTILE[:20] in seen.page.inner_text("body")
        assert seen.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_their_screen_and_pass_an_accessibility_check(site, visit, scheme, width, tmp_path):
    pytest.importorskip("axe_playwright_python", reason="axe is not installed: cotenant[browser]")
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    keys = [site.key(name) for name in ("pairs/monday", "pairs/tuesday")]
    for name, path in {
        "list": "",
        "progress": f"run/{keys[0]}/progress",
        "compare": f"compare?run={keys[0]}&run={keys[1]}",
        "message": "nothing",
    }.items():
        seen = visit(site.url + path, color_scheme=scheme, viewport={"width": width, "height": 900})
        assert seen.page.screenshot(path=tmp_path / f"{name}.png")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        seen.page.evaluate(axe)
        found = seen.page.evaluate("axe.run()")["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_in_view_fits_a_phone_and_passes_an_accessibility_check(site, visit, scheme):
    pytest.importorskip("axe_playwright_python", reason="axe is not installed: cotenant[browser]")
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    seen = visit(
        f"{site.url}run/{site.key('pairs/monday')}",
        color_scheme=scheme,
        viewport={"width": 400, "height": 860},
        bypass_csp=True,
    )
    playwright.expect(seen.page.get_by_role("heading", name="The answer")).to_be_visible()
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 22, 27)"}[scheme]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
    seen.page.evaluate(axe)
    found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}] == []


def test_the_cell_of_a_report_in_view_opens_its_detail(site, visit):
    seen = visit(f"{site.url}run/{site.key('pairs/monday')}")
    cell = seen.page.locator(".matrix button").first
    cell.click()
    playwright.expect(cell).to_have_attribute("aria-pressed", "true")
    detail = seen.page.locator(".detail:visible")
    assert detail.get_attribute("id") == cell.get_attribute("data-mix")
    playwright.expect(detail.locator(".drawing[data-part=curves] svg")).to_be_visible()
    assert seen.complaints == []
