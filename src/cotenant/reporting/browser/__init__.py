"""A folder of runs in a browser: a small read-only web server."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.reporting.browser.pages import live_page
    from cotenant.reporting.browser.server import listening_site
    from cotenant.reporting.browser.site import site_over
else:
    __getattr__, __dir__ = front(__name__, __file__)
