"""`cotenant selftest`: does cotenant measure right on this device?"""

import click

from cotenant.cli.exits import Exit
from cotenant.cli.output import as_json, show, show_json


@click.command(
    "selftest",
    epilog="The exit code is 2 if a check failed; what can't be tried here is skipped.",
)
@click.argument("device", metavar="DEVICE", default="cpu")
@as_json
def command(*, device: str, as_json: bool) -> int:
    """Try timing, sharing, sensors and controls of DEVICE (default: cpu), for a bug report."""
    from cotenant.analyse.plain import plain
    from cotenant.api.selftest import selftest
    from cotenant.reporting.terminal.selftest import selftest_tables

    found = selftest(device)
    if as_json:
        show_json({"schema_version": 1, "passed": found.passed, **plain(found)})
    else:
        show(*selftest_tables(found))
    return Exit.OK if found.passed else Exit.NOT_READY
