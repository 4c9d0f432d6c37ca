"""Chromium for tests of pages. Importing this skips a module where Playwright is missing."""

import shutil
from contextlib import contextmanager

import pytest

from tests.support import pace

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: cotenant[browser]")

# The default of 5 s is short for a page whose server and browser share two cores with other tests.
playwright.expect.set_options(timeout=pace.seconds(60) * 1000)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
NEEDS_CHROMIUM = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.slow,
]


@contextmanager
def launched():
    """A browser, closed at the end."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def complaints_of(page):
    """What the page writes to its console or raises, from now on."""
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
