"""`cotenant selftest`: does cotenant measure correctly on this device?"""

import click

from cotenant.cli.options import on_cluster
from cotenant.cli.output import Exit, as_json, show, show_json


@click.command(
    "selftest",
    epilog="The exit code is 2 if a check failed; checks that can't run here are skipped.",
)
@click.argument("device", metavar="DEVICE", default="cpu")
@on_cluster
@as_json
def command(*, device: str, on: str | None, insecure: bool, as_json: bool) -> int:
    """Test timing, sharing, sensors and controls of DEVICE (default: cpu), for a bug report."""
    from cotenant.analyse.tabular import plain
    from cotenant.api.doctor import selftest, selftest_nodes
    from cotenant.reporting.terminal import selftest_tables

    if on is not None:
        nodes = selftest_nodes(device, on=on, insecure=insecure)
        passed = all(node.passed for node in nodes)
        if as_json:
            show_json({"schema_version": 1, "passed": passed, "nodes": [plain(node) for node in nodes]})
        else:
            show(*(part for node in nodes for part in selftest_tables(node)))
        return Exit.OK if passed else Exit.NOT_READY
    found = selftest(device)
    if as_json:
        show_json({"schema_version": 1, "passed": found.passed, **plain(found)})
    else:
        show(*selftest_tables(found))
    return Exit.OK if found.passed else Exit.NOT_READY
