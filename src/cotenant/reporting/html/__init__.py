"""The report as one self-contained HTML file: no network, no server, no installation."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.reporting.html.page import run_page
    from cotenant.reporting.html.variability_page import fleet_page, gather
else:
    __getattr__, __dir__ = front(__name__, __file__)
