"""The page in a browser, from disk and without a network. Skipped without Chromium or Playwright."""

from importlib import resources
from itertools import combinations

import pytest

from cotenant.api.report import report
from tests.reporting.html.report_runs import HOSTILE, write_run
from tests.support.browser import NEEDS_CHROMIUM, complaints_of

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.long]
OPEN = {"poisson(10%)": (10.0, 1.0), "poisson(40%)": (40.0, 1.2), "poisson(60%)": (60.0, 4.0)}
ROOFLINE = {"flops_per_s": {"float32": 1e11}, "bytes_per_s": 1e10, "cores": 2, "measured_utc": "2030-01-01"}


def with_objectives(folder):
    """Four mixes with objectives: kept by one way to share and missed by the other."""
    names = ("chat", "search", "rank")
    mixes = [names, *combinations(names, 2)]
    return write_run(folder, tenants=names, mixes=mixes, slo_ms=4.0, requests=120, blocks=4, simulated=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    plain = write_run(folder / "plain", loads=OPEN, manifest={"roofline": ROOFLINE})
    hostile = write_run(
        folder / "hostile",
        tenants=(HOSTILE, "b"),
        blocks=2,
        verdict="unstable",
        failed=[HOSTILE],
        reasons=[HOSTILE],
        manifest={"study_name": HOSTILE, "study": HOSTILE, "device_description": {HOSTILE: HOSTILE, "model": HOSTILE}},
    )
    objectives = with_objectives(folder / "objectives")
    invalid = write_run(folder / "invalid", verdict="invalid", failed=["tenants_alive"], reasons=["it died"], blocks=1)
    million = write_run(folder / "million", requests=55_556)
    names = ("green", "mps", "processes", "streams", *(f"mig[{size}g.10gb, {size}g.10gb]" for size in (1, 2, 3)))
    ways = write_run(folder / "ways", blocks=2, sharings=names)
    runs = {"plain": plain, "hostile": hostile, "invalid": invalid, "objectives": objectives, "million": million}
    runs["ways"] = ways
    runs["alone"] = write_run(folder / "alone", sharings=())
    runs["servers"] = write_run(folder / "servers", tenants=("chat", "search"), tokens=16)
    return {name: report([run]).html for name, run in runs.items()}


DRAW_ALL = """async () => {
  document.querySelectorAll("details").forEach((one) => (one.open = true));
  const end = performance.now() + 60_000;
  for (const figure of document.querySelectorAll(".drawing[data-figure]")) {
    figure.scrollIntoView();
    while (!figure.dataset.drawn) {
      if (performance.now() > end) throw new Error(`${figure.dataset.figure} was not drawn`);
      await new Promise(requestAnimationFrame);
    }
  }
}"""


class Visit:
    """An open page, its errors and its requests."""

    def __init__(self, browser, path, **context):
        self.context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, **context)
        self.page = self.context.new_page()
        self.complaints, self.requests = complaints_of(self.page), []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def draw_all(self):
        """Unfold details and scroll to each figure, so that all are drawn."""
        self.page.evaluate(DRAW_ALL)


@pytest.fixture
def visit(chromium, pages):
    opened = []

    def go(name, **context):
        opened.append(Visit(chromium, pages[name], **context))
        return opened[-1]

    yield go
    for one in opened:
        one.context.close()


@pytest.mark.parametrize("name", ["plain", "hostile", "invalid", "objectives", "servers"])
def test_the_page_opens_from_disk_without_errors_or_requests(visit, name):
    seen = visit(name)
    seen.draw_all()
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("file:")] == []
    assert len(seen.requests) == 1


def test_every_figure_is_drawn(visit):
    seen = visit("plain")
    seen.draw_all()
    kinds = ("latency-1", "stp", "throughput", "fairness", "load", "stages-1", "roofline", "sensors")
    for kind in kinds:
        assert seen.page.locator(f".drawing[data-figure={kind}] svg path").count() > 1, kind


def test_the_recommended_cell_is_chosen_at_first(visit):
    page = visit("objectives").page
    chosen = page.locator(".matrix button[aria-pressed=true]")
    assert chosen.count() == 1
    assert "best" in chosen.get_attribute("class")
    assert chosen.locator(".ring.kept").count() == 1
    assert page.locator(".detail:visible").get_attribute("id") == chosen.get_attribute("data-mix")
    assert page.locator(".matrix .ring.missed").count() == 4
    assert page.locator(".matrix button.hatched").count() == page.locator(".matrix .ring.open").count(), (
        "undecided only"
    )


def test_a_click_and_a_key_on_a_cell_of_the_matrix_open_its_detail(visit):
    seen = visit("objectives")
    shown = seen.page.locator(".detail:visible")
    first = shown.get_attribute("id")
    other = seen.page.locator(f".matrix button:not([data-mix={first}])").first
    other.click()
    assert shown.get_attribute("id") == other.get_attribute("data-mix") != first
    assert other.get_attribute("aria-pressed") == "true"
    assert "misses its objective" in shown.inner_text() or "missed" in shown.inner_text()
    seen.page.wait_for_selector(".detail:visible .drawing[data-part=curves] svg")
    seen.page.wait_for_selector(".detail:visible .drawing[data-part=timeline] svg")
    assert "objective: p90 within 4 ms" in shown.locator(".drawing[data-part=curves]").text_content()
    last = seen.page.locator(".matrix button").last
    last.focus()
    seen.page.keyboard.press("Enter")
    assert shown.get_attribute("id") == last.get_attribute("data-mix")
    assert seen.page.evaluate("document.activeElement.tagName") == "H3"


def test_a_square_of_the_slowdowns_opens_the_same_detail(visit):
    page = visit("plain").page
    square = page.locator(".heat button").last
    square.click()
    assert page.locator(".detail:visible").get_attribute("id") == square.get_attribute("data-mix")


def test_the_matrix_can_be_narrowed_by_name_and_by_verdict(visit):
    page = visit("objectives").page
    lines = page.locator(".matrix tbody tr:visible")
    assert lines.count() == 4
    page.locator("#filter-text").fill("search rank")
    assert lines.count() == 2
    assert "2 of 4" in page.locator("#filter-count").inner_text()
    page.locator("#filter-verdict").select_option("apart")
    assert lines.count() == 0
    page.locator("#filter-verdict").select_option("share")
    assert lines.count() == 2
    page.locator("#filter-text").fill("")
    assert lines.count() == 4


def test_a_million_requests_are_a_page_of_two_megabytes_whose_figures_are_drawn(pages, visit):
    assert pages["million"].stat().st_size < 2_000_000
    seen = visit("million")
    seen.page.wait_for_selector(".detail:visible .drawing[data-part=curves] svg")
    assert seen.page.locator(".detail:visible td[data-label=requests]").first.inner_text() == "166,668"
    assert seen.complaints == []


def test_data_is_downloaded_as_csv(visit):
    seen = visit("plain")
    with seen.page.expect_download() as started:
        seen.page.locator("button.download[data-figure=slowdown]").click()
    assert started.value.suggested_filename == "slowdown.csv"
    lines = started.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("condition,tenant,mix,sharing")
    assert len(lines) == 1 + 2 * 2 * 3


def test_hostile_names_do_nothing_but_appear(visit):
    seen = visit("hostile")
    seen.draw_all()
    for square in seen.page.locator(".matrix button, .heat button").all():
        square.click()
    seen.page.locator(".drawing[data-figure=stp] svg path").first.hover(force=True)
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("main img").count() == 0
    assert "<img src=x" in seen.page.locator("h1").inner_text()


def test_a_page_without_a_valid_trial_says_why(visit):
    assert "it died" in visit("invalid").page.locator("#answer").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(visit, scheme):
    page = visit("plain", color_scheme=scheme).page
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 22, 27)"}[scheme]


@pytest.mark.parametrize("name", ["plain", "objectives", "hostile", "servers", "alone"])
def test_nothing_overflows_on_a_phone_and_no_table_is_cut(visit, name):
    seen = visit(name)
    seen.page.set_viewport_size({"width": 400, "height": 800})
    seen.page.reload()
    seen.draw_all()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert seen.page.evaluate(cut) == 0


def test_the_first_screen_of_a_study_without_mixes_shows_its_main_table(visit):
    table = visit("alone").page.locator("#answer table")
    assert table.locator("th[scope=col]").all_text_contents() == ["model", "a request", "where the time goes"]
    assert table.bounding_box()["y"] < 600


def test_times_of_tokens_are_shown_for_servers_only(visit):
    shown = {name: "TTFT" in visit(name).page.locator("main").text_content() for name in ("servers", "plain")}
    assert shown == {"servers": True, "plain": False}


@pytest.mark.parametrize("name", ["ways", "objectives"])
def test_wide_tables_fit_a_window_of_middling_width(visit, name):
    page = visit(name).page
    width = 900
    page.set_viewport_size({"width": width, "height": 800})
    assert page.locator("#slowdown .heat").is_visible()
    assert page.locator(".detail:visible table").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_printed_holds_the_answer_the_matrix_and_drawn_figures(visit):
    seen = visit("objectives")
    seen.draw_all()
    seen.page.emulate_media(media="print")
    assert seen.page.locator("nav").is_hidden()
    assert seen.page.locator("#filter").is_hidden()
    assert seen.page.locator(".matrix").is_visible()
    assert seen.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plain", "hostile", "objectives"])
def test_axe_finds_nothing_serious(visit, name, scheme):
    pytest.importorskip("axe_playwright_python", reason="axe is not installed: cotenant[browser]")
    seen = visit(name, color_scheme=scheme, bypass_csp=True)
    seen.draw_all()
    seen.page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = {
        each["id"]: [node["html"][:160] for node in each["nodes"][:3]]
        for each in found
        if each["impact"] in {"serious", "critical"}
    }
    assert serious == {}
