"""The live page in a browser. Skipped without Chromium or Playwright."""

import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: cotenant[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.slow,
]
IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}


def test_it_shows_tenants_and_stays_up_to_date(server):
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{server.url}/ui")
        rows = page.locator("#live tbody tr")
        rows.nth(2).wait_for(timeout=60_000)
        assert [rows.nth(at).locator("th").inner_text() for at in range(3)] == ["bert", "conv", "gpt"]
        assert server.ask("/v2/models/bert/infer", IDS)[0] == 200
        in_time = rows.nth(0).locator("td").nth(1)
        playwright.expect(in_time).to_have_text("100.0 %", timeout=60_000)
        assert page.locator("#state").inner_text().startswith("cpu, up ")
        assert complaints == []
        browser.close()
