# ruff: noqa: INP001 - a script, not part of a package
"""Screenshots of every page, light, dark and on a phone: `make screenshots` writes those of the gallery.

    python docs/screenshots.py --out docs/images              those that the documentation shows
    python docs/screenshots.py --all --out DIR                every page in three looks, and its height on a phone

It needs Chromium and Playwright (`cotenant[browser]`). Runs are simulated, so that they are the same everywhere, except
`quick`, which measures this machine for 70 s: leave it alone meanwhile.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEVICE = "sim:a100-sxm4-40gb"
LOOKS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
TENANTS = """\
tenants:
  chat: {workload: llama-3.2-3b, software: vllm, seq: 256, tokens: 64, rate: 3/s,
         slo: {ttft p95: 800ms, tpot p95: 60ms}}
  embed: {workload: bert-base, batch: 8, rate: 30/s, slo: {p99: 60ms}, replicas: 2}
  rerank: {workload: roberta-large, batch: 4, rate: 15/s, slo: {p99: 120ms}}
  tagger: {workload: distilbert, batch: 8, rate: 40/s, slo: {p99: 40ms}}
"""
SERVED = """\
tenants:
  embed: {workload: bert-base-mini, batch: 2, rate: 8/s, slo: {p99: 150ms}}
  vision: {workload: resnet18-mini, batch: 2, rate: 8/s, slo: {p99: 150ms}}
"""
THREE = """\
tenants:
  chat: {workload: llama-3.2-1b, mode: generate, software: vllm, seq: 128, tokens: 32, rate: 1/s,
         slo: {ttft p95: 800ms, tpot p95: 80ms}}
  embed: {workload: bert-base, rate: 20/s, slo: {p99: 60ms}}
  rerank: {workload: roberta-large, rate: 5/s, slo: {p99: 150ms}}
mixes: [pairs, all]
sharing: [processes, mps]
blocks: 3
"""
PAGES = ("report", "devices", "plan", "prediction", "watch", "view", "database", "ui")
HEIGHTS = {"light": 900, "dark": 900, "phone": 844}
GALLERY = {
    f"{page}{'' if look == 'light' else f'-{look}'}": (page, look, HEIGHTS[look]) for page in PAGES for look in LOOKS
} | {
    "report-detail": ("report#detail", "light", 900),
    "report-work": ("report#work", "light", 900),
    "devices": ("devices", "light", 1120),
    "devices-dark": ("devices", "dark", 1120),
    "ui": ("ui", "light", 620),
    "ui-dark": ("ui", "dark", 620),
    "quick": ("quick", "light", 900),
}
"""File, page, look and height of what the documentation shows: the first screen of every page in three looks.

`quick` is a report like the others, of a run on this machine.
"""


def cotenant(*words: str | Path, cwd: Path) -> None:
    """Run a command, quietly."""
    command = [str(Path(sys.executable).parent / "cotenant"), *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 2, 3}:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")


def make_pages(home: Path) -> dict[str, str]:
    """Write every page and return their addresses by name."""
    (home / "tenants.yaml").write_text(TENANTS)
    for study in ("tenancy", "dvfs"):
        if not list((home / "runs" / study).glob("*")):
            cotenant("run", study, "--device", DEVICE, "--out", home / "runs", "--quiet", cwd=home)
    (tenancy,) = (home / "runs" / "tenancy").iterdir()
    cotenant("report", tenancy, "--out", home / "report.html", cwd=home)
    cotenant("plan", "tenants.yaml", "--devices", f"{DEVICE}*4", "--page", home / "plan.html", cwd=home)
    cotenant("predict", "tenancy-pairs", "--device", DEVICE, "--page", home / "prediction.html", cwd=home)
    if not list((home / "runs" / "variability-mini").glob("*")):
        cotenant("run", "variability-mini", "--devices", "sim:rtx-a5000*3", "--out", home / "runs", "--quiet", cwd=home)
    (fleet_run,) = (home / "runs" / "variability-mini").iterdir()
    cotenant("db", "--db", home / "db", "add", fleet_run, cwd=home)
    cotenant("db", "--db", home / "db", "report", "--out", home / "database.html", cwd=home)
    if not list((home / "measured" / "quick").glob("*")):
        cotenant("run", "quick", "--out", home / "measured", "--quiet", cwd=home)
    (quick_run,) = (home / "measured" / "quick").iterdir()
    cotenant("report", quick_run, "--out", home / "quick.html", cwd=home)
    (home / "three.yaml").write_text(THREE)
    if not list((home / "three" / "three").glob("*")):
        devices = "sim:t4,sim:l4,sim:a100-sxm4-40gb"
        cotenant("run", "three.yaml", "--devices", devices, "--out", home / "three", "--quiet", cwd=home)
    cotenant("report", *sorted((home / "three" / "three").iterdir()), "--out", home / "devices.html", cwd=home)
    watched_page(home / "watch.html")
    names = ("report", "devices", "plan", "prediction", "watch", "database", "quick")
    return {name: (home / f"{name}.html").as_uri() for name in names}


def watched_page(out: Path) -> None:
    """Two servers that take turns, read as `watch` reads them."""
    import numpy as np

    from cotenant.analyse.neighbours.watching import watched_of
    from cotenant.reporting.results.watched import watched_page as page
    from validation.scripted_neighbours import Script, play
    from validation.watching import READ_EVERY_S, readings

    script = Script(1, 1.5)
    first, second, _ = play(script)
    t_s = np.arange(0.0, 60 * script.minutes, READ_EVERY_S)
    watched = watched_of([readings("embed", first, t_s), readings("rerank", second, t_s)], device="simulated")
    out.write_text(page(watched), encoding="utf-8")


@contextmanager
def viewed(folder: Path) -> Iterator[str]:
    """`cotenant view` over a folder."""
    from cotenant.reporting.browser.server import ViewServer
    from cotenant.reporting.browser.site import site_over

    site, index = site_over(folder)
    index.watch()
    with ViewServer(0, site) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        time.sleep(3)  # until the answers have been worked out
        yield server.url
        server.stop()
        serving.join(10)
    site.close()
    index.close()


@contextmanager
def served(home: Path) -> Iterator[str]:
    """`cotenant serve` with some traffic, for its `/ui`."""
    (home / "served.yaml").write_text(SERVED)
    command = [
        str(Path(sys.executable).parent / "cotenant"),
        "serve",
        "served.yaml",
        "--device",
        "cpu",
        "--port",
        "8711",
    ]
    server = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    items = {"name": "input_ids", "datatype": "INT64", "shape": [1, 8], "data": list(range(9, 17))}
    body = json.dumps({"inputs": [items]}).encode()
    try:
        for attempt in range(600):
            try:
                urllib.request.urlopen("http://127.0.0.1:8711/v2/models/embed/infer", body, timeout=30).close()
            except OSError:  # not there yet
                if server.poll() is not None or attempt == 599:
                    raise
            time.sleep(0.1)
            if attempt > ENOUGH and server.poll() is None:
                break
        yield "http://127.0.0.1:8711/ui"
    finally:
        server.terminate()
        server.wait(60)


ENOUGH = 300
"""Attempts of a request, ten a second: some of them are answered by then."""
SCROLL = {
    "detail": "document.querySelector('section.detail:not([hidden])').scrollIntoView()",
    "work": """(() => { const part = [...document.querySelectorAll('main > section')].find(
        (section) => section.querySelector('h2')?.textContent.startsWith('Work'));
        part.querySelectorAll('details').forEach((folded) => { folded.open = true }); part.scrollIntoView(); })()""",
}
"""How to get to the parts of a report that have pictures of their own."""


def shoot(browser: Any, address: str, look: str, out: Path, height: int | None = None, *, anchor: str = "") -> int:
    """One screenshot, of the whole page or of a part of it; returns the height of the whole page."""
    width, scheme = LOOKS[look]
    page = browser.new_page(viewport={"width": width, "height": height or 900}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_timeout(1500)
    page.evaluate(  # no paths of this machine
        "document.querySelectorAll('p.run code').forEach(each => each.textContent.startsWith('/') && "
        "each.replaceChildren(each.textContent.split('/').at(-1)))"
    )
    if anchor:
        page.evaluate(SCROLL[anchor])
        page.wait_for_timeout(1000)
    tall = int(page.evaluate("document.documentElement.scrollHeight"))
    page.screenshot(path=out, full_page=height is None, clip=None)
    page.close()
    return tall


def main() -> None:
    """Make the pages, then the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--home", type=Path, help="keeps the runs, for a second time")
    parser.add_argument("--all", action="store_true", help="every page in three looks")
    parser.add_argument("--only", help="names of pages, separated by commas")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        home = (given.home or Path(temporary)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        pages = make_pages(home)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with viewed(home / "runs") as address, served(home) as live:
            pages |= {"view": address, "ui": live}
            wanted = None if given.only is None else given.only.split(",")
            if given.all:
                for name in PAGES if wanted is None else wanted:
                    for look in LOOKS:
                        tall = shoot(browser, pages[name], look, given.out / f"{name}-{look}.png")
                        sys.stdout.write(f"{name:12} {look:6} {tall:6} px\n")
            else:
                for name, (page, look, height) in GALLERY.items():
                    if wanted is None or name in wanted:
                        whole, _, anchor = page.partition("#")
                        shoot(browser, pages[whole], look, given.out / f"{name}.png", height, anchor=anchor)
        browser.close()


if __name__ == "__main__":
    main()
