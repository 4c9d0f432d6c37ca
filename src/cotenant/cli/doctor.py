"""`cotenant doctor`: is this machine ready to measure?"""

import click

from cotenant.cli.options import on_cluster
from cotenant.cli.output import Exit, as_json, show, show_json


@click.command(
    "doctor",
    epilog="The exit code is 2 if there is a problem; notes and warnings do not count.",
)
@click.option("--device", metavar="DEVICE", help="Check this device only; default: the CPU and every GPU.")
@click.option("--fix", is_flag=True, help="Fix what is safe: GPU persistence mode, leftovers of killed runs.")
@click.option("--restore", is_flag=True, help="Restore settings left by killed runs or changed by --fix.")
@on_cluster
@as_json
def command(*, device: str | None, fix: bool, restore: bool, on: str | None, insecure: bool, as_json: bool) -> int:
    """Check whether this machine is ready to measure, and what to do if it is not."""
    from cotenant.api.doctor import doctor
    from cotenant.reporting.terminal import checkup_lines, done

    if fix and restore:
        raise click.UsageError("--fix and --restore are opposites: choose one.")
    if on and (fix or restore):
        raise click.UsageError("--fix and --restore work on one machine: run them on the node itself.")
    if fix or restore:
        findings = doctor(device, fix=fix, restore=restore)
        show_json({"schema_version": 1, "done": findings}) if as_json else show(*done(findings))
        return Exit.OK if all(finding.state != "problem" for finding in findings) else Exit.NOT_READY
    findings = doctor(device, on=on, insecure=insecure)
    ready = all(finding.state != "problem" for finding in findings)
    if as_json:
        show_json({"schema_version": 1, "ready": ready, "findings": findings})
    else:
        show(*checkup_lines(findings))
    return Exit.OK if ready else Exit.NOT_READY
