"""The live page of a server: one file that asks the server how it stands, once a second."""

from importlib import resources

from cotenant.reporting.browser.pages import style


def live_page() -> str:
    """The page, whole; it holds no data."""
    template = resources.files("cotenant.reporting.browser") / "templates" / "live.html"
    return template.read_text("utf-8").replace("{{ css }}", style())
