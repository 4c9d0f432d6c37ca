"""The live page in a browser. Skipped without Chromium or Playwright."""

import os

import pytest

from tests.serving.server.conftest import serving
from tests.support.browser import NEEDS_CHROMIUM, complaints_of, playwright

pytestmark = NEEDS_CHROMIUM
TENANTS = """
threads: 1
tenants:
  bert: {workload: bert-base-mini, seq: 16, slo: 60s, at_once: 2, group: encoders}
  conv: {workload: resnet18-mini, slo: 60s, group: encoders}
"""
IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}


@pytest.fixture
def server(tmp_path):
    # The page judges the last quarter of an hour: not a server on which other tests shed requests.
    with serving(tmp_path, TENANTS, "--device", f"cpu:{max(os.sched_getaffinity(0))}") as running:
        yield running


def test_it_shows_tenants_and_stays_up_to_date(server, chromium):
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    complaints = complaints_of(page)
    page.goto(f"{server.url}/ui")
    rows = page.locator("#live tbody tr")
    playwright.expect(rows).to_have_count(2)
    assert [rows.nth(at).locator("th").inner_text() for at in range(2)] == ["bert", "conv"]
    assert server.ask("/v2/models/bert/infer", IDS)[0] == 200
    in_time = rows.nth(0).locator("td").nth(1)
    playwright.expect(in_time).to_have_text("100.0 %")
    playwright.expect(rows.nth(0).get_by_role("img", name="1 of 1 requests in time")).to_be_visible()
    assert page.locator("#state").inner_text().startswith("cpu:")
    playwright.expect(page.locator("#answer")).to_have_text("Requests are served in time.")
    promise = page.locator("#promises tbody tr").nth(0)
    playwright.expect(promise.locator("td").nth(2)).to_have_text("can't tell: 298 more requests decide")
    playwright.expect(promise.get_by_role("img", name="limit 60,000.0 ms")).to_be_visible()
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
    assert complaints == []
