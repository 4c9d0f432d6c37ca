"""The live page in a browser. Skipped without Chromium or Playwright."""

from tests.support.browser import NEEDS_CHROMIUM, complaints_of, playwright

pytestmark = NEEDS_CHROMIUM
IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}


def test_it_shows_tenants_and_stays_up_to_date(server, chromium):
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    complaints = complaints_of(page)
    page.goto(f"{server.url}/ui")
    rows = page.locator("#live tbody tr")
    rows.nth(2).wait_for(timeout=60_000)
    assert [rows.nth(at).locator("th").inner_text() for at in range(3)] == ["bert", "conv", "gpt"]
    assert server.ask("/v2/models/bert/infer", IDS)[0] == 200
    in_time = rows.nth(0).locator("td").nth(1)
    playwright.expect(in_time).to_have_text("100.0 %", timeout=60_000)
    assert page.locator("#state").inner_text().startswith("cpu, up ")
    playwright.expect(page.locator("#answer")).to_have_text("Requests are served in time.")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
    assert complaints == []
