"""README.md of an export: how to start it, what runs where, and what the target can't express."""

from collections.abc import Sequence

from cotenant.planning.exports.model import ExportedDevice, ExportedFolder, ExportedPlan, ExportedTenant
from cotenant.planning.exports.quoting import markdown

SHARED = {
    "alone": "alone",
    "processes": "processes that take turns",
    "mps": "MPS",
    "mig": "MIG",
}
_MIB = 2**20


def readme(plan: ExportedPlan, folder: ExportedFolder, targets: Sequence[str]) -> str:
    """The text, with names escaped."""
    lines = [f"# A plan, exported for {', '.join(targets)}", ""]
    if "plan.sh" in folder.files:
        lines += ["```sh", "./plan.sh up", "./plan.sh down", "```", ""]
    if "machine.sh" in folder.scripts:
        processes = {"processes.sh", "systemd.sh"} & set(folder.scripts)
        lines += [
            "`up` sets the GPUs up, starts servers one after the other, each once the one before it is ready, and",
            f"checks that each is attached to MPS{' and within its memory' if processes else ''}; if anything fails,",
            "it undoes what it did. `down` undoes all of it; logs stay. `check` checks again, `env TENANT` prints a",
            "tenant's environment. MIG, clocks and power limits need root; servers run as the user who calls.",
            "",
        ]
    lines += ["| tenant | name in the plan | device | shared by | share | memory MiB |", "|---|---|---|---|---|---:|"]
    lines += [_row(device, tenant) for device in plan.devices for tenant in device.tenants]
    if folder.notes:
        lines += ["", "## To do, and what this export can't do", "", *(f"- {markdown(note)}" for note in folder.notes)]
    return "\n".join(lines) + "\n"


def _row(device: ExportedDevice, tenant: ExportedTenant) -> str:
    share = tenant.profile or ("" if tenant.percentage is None else f"{tenant.percentage} % of the SMs")
    cells = [
        tenant.key,
        markdown(tenant.name),
        markdown(device.name),
        SHARED.get(device.sharing, device.sharing),
        share,
        f"{-(-tenant.memory_bytes // _MIB):,}",
    ]
    return f"| {' | '.join(cells)} |"
