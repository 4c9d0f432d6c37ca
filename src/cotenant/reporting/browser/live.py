"""The live page of a server: a static file that polls `/status` once a second."""

from importlib import resources

from cotenant.reporting.browser.pages import style


def live_page() -> str:
    """The complete page; it contains no data."""
    template = resources.files("cotenant.reporting.browser") / "templates" / "live.html"
    return template.read_text("utf-8").replace("{{ css }}", style())
