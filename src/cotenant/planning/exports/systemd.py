"""systemd: a unit per tenant, started when the one before it is ready, after a unit that sets the GPUs up."""

from collections.abc import Sequence

from cotenant.planning.exports import machine
from cotenant.planning.exports.model import ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import systemd_program
from cotenant.planning.exports.servers import ServerCommand

DEVICES, TARGET = "cotenant-devices.service", "cotenant.target"


def export(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
    """`units/`, and `plan.sh`, which links and starts them. Units hold the folder's path, as systemd wants it."""
    script = systemd_program(f"{plan.folder}/plan.sh")
    names = [_unit_of(command) for command in commands]
    units = {
        TARGET: _text({"Unit": ["Description=Tenants of a cotenant plan", f"Wants={' '.join([DEVICES, *names])}"]}),
        DEVICES: _text(
            {
                "Unit": ["Description=GPUs of a cotenant plan", f"PartOf={TARGET}"],
                "Service": [
                    "Type=oneshot",
                    "RemainAfterExit=yes",
                    f"ExecStart={script} devices",
                    f"ExecStop={script} undo",
                ],
            }
        ),
    }
    for place, command in enumerate(commands):
        after = [DEVICES, *names[max(place - 1, 0) : place]]
        units[names[place]] = _text(
            {
                "Unit": [
                    f"Description=Tenant {command.tenant.key} of a cotenant plan",
                    f"PartOf={TARGET}",
                    f"Requires={DEVICES}",
                    f"After={' '.join(after)}",
                ],
                "Service": [
                    "Type=exec",
                    f"ExecStart={script} serve {command.tenant.key}",
                    # The next tenant starts when this returns.
                    f"ExecStartPost={script} await {command.tenant.key}",
                    "TimeoutStartSec=1h",
                    "Restart=on-failure",
                ],
            }
        )
    notes = [
        "units hold the path of this folder: export again where it moves",
        "systemd looks for servers in its own PATH: write the full path of a command into plan.sh if it isn't there",
        "a server that fails is started again beside the others, out of order",
    ]
    folder = machine.with_servers(plan, commands, more=notes, runner="systemd.sh")
    return folder.with_files({f"units/{name}": text for name, text in units.items()})


def _unit_of(command: ServerCommand) -> str:
    return f"cotenant-{command.tenant.key}.service"


def _text(sections: dict[str, list[str]]) -> str:
    return "\n".join("\n".join([f"[{name}]", *lines, ""]) for name, lines in sections.items())
