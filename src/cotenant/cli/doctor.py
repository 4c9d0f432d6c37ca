"""`cotenant doctor`: is this machine ready to be measured on?"""

import click

from cotenant.cli.exits import Exit
from cotenant.cli.output import as_json, show, show_json


@click.command("doctor", epilog="The exit code is 2 if there is a problem; notes and warnings do not count as one.")
@click.option("--device", metavar="DEVICE", help="Look at this device only.")
@as_json
def command(*, device: str | None, as_json: bool) -> int:
    """Say whether this machine is ready, and what to do if it is not."""
    from cotenant.report.checkup import checkup
    from cotenant.verbs.doctor import doctor

    findings = doctor(device)
    ready = all(finding.state != "problem" for finding in findings)
    if as_json:
        show_json({"schema_version": 1, "ready": ready, "findings": findings})
    else:
        show(*checkup(findings))
    return Exit.OK if ready else Exit.NOT_READY
