"""Tables and sentences for the terminal."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.reporting.terminal.checkup import checkup_lines, done, selftest_tables
    from cotenant.reporting.terminal.forecast import forecast_tables
    from cotenant.reporting.terminal.lists import (
        QueryAnswer,
        device_list,
        kernel_page,
        server_list,
        study_list,
        workload_list,
    )
    from cotenant.reporting.terminal.progress import listening, watch
    from cotenant.reporting.terminal.search import watch_search
    from cotenant.reporting.terminal.server import closing_lines, opening_lines, status_parts
else:
    __getattr__, __dir__ = front(__name__, __file__)
