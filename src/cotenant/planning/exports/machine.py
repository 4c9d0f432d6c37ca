"""`plan.sh` for a single machine: sets up the sharing, starts servers in sequence, and undoes all of it."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from cotenant.planning.exports.model import (
    ExportedDevice,
    ExportedFolder,
    ExportedPlan,
    ExportedTenant,
)
from cotenant.planning.exports.quoting import shell_word, shell_words
from cotenant.planning.exports.servers import ServerCommand

_MIB = 2**20


def export(plan: ExportedPlan) -> ExportedFolder:
    """The sharing alone: people start tenants by `plan.sh run TENANT COMMAND`."""
    note = "no servers are started: plan.sh run TENANT COMMAND... starts yours inside the sharing"
    return with_servers(plan, (), more=(note,))


def with_servers(
    plan: ExportedPlan,
    commands: Sequence[ServerCommand],
    more: Sequence[str] = (),
    runner: str = "processes.sh",
    settings: Mapping[str, str] | None = None,
) -> ExportedFolder:
    """The sharing, and servers started in it in this order.

    Args:
        plan: The plan.
        commands: A server per tenant, or none.
        more: Further notes.
        runner: The script beside this file that starts and stops servers.
        settings: Variables of that script.
    """
    by_tenant = {command.tenant.key: command for command in commands}
    seats = [(device, tenant) for device in plan.devices for tenant in device.tenants]
    lines = [
        f"tenants=({shell_words([tenant.key for _, tenant in seats])})",
        f"servers=({shell_words([command.tenant.key for command in commands])})",
        *(f"{name}={shell_word(value)}" for name, value in (settings or {}).items()),
        "",
        "devices() {",
        *([f"    {shell_words(step)}" for step in steps(plan)] or ["    :"]),
        "}",
        "",
        "tenant() {",
        '    case "$1" in',
        *(line for device, tenant in seats for line in _case(device, tenant, by_tenant.get(tenant.key))),
        "        *) return 1 ;;",
        "    esac",
        "}",
        "",
        'main "$@"',
    ]
    folder, scripts = files(__package__), ("machine.sh", runner)
    library = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in scripts)
    own = {name: text for command in commands for name, text in command.files.items()}
    return ExportedFolder(
        files={"plan.sh": library + "\n# --- the plan\n\n" + "\n".join(lines) + "\n", **own},
        notes=(*(note for command in commands for note in command.notes), *more, *unenforced(plan)),
        scripts=scripts,
    )


def unenforced(plan: ExportedPlan) -> list[str]:
    """What can't be enforced for separate servers on a GPU."""
    shared = [device for device in plan.devices if len(device.tenants) > 1]
    notes = []
    if any(device.sharing in {"mps", "processes"} for device in shared):
        notes.append("memory isn't limited: a tenant that grows takes its neighbours'")
    if any(len({tenant.priority for tenant in device.tenants}) > 1 for device in shared):
        notes.append("priorities are lost: separate servers on a GPU don't order requests; cotenant serve does")
    return notes


def steps(plan: ExportedPlan) -> list[list[str]]:
    """Calls of `machine.sh` that set the devices up. What may fail for want of memory comes before any change."""
    checks: list[list[str]] = []
    changes: list[list[str]] = []
    for device in plan.devices:
        gpus = gpus_of(device)
        for gpu in gpus:
            if device.sharing != "mig":
                checks.append(["needs_memory", gpu, str(sum(mebibytes(tenant) for tenant in device.tenants))])
            if device.clock_mhz:
                changes.append(["clock_up", gpu, str(device.clock_mhz)])
            if device.power_limit_w:
                changes.append(["power_up", gpu, str(device.power_limit_w)])
        if device.sharing == "mps":
            changes.append(["mps_up", gpus[0]])
        if device.sharing == "mig":
            changes.append(["mig_mode_up", gpus[0]])
            changes += [["mig_up", gpus[0], str(tenant.profile), tenant.key] for tenant in _by_size(device)]
    return [*checks, *changes]


def gpus_of(device: ExportedDevice) -> list[str]:
    """Numbers of its GPUs."""
    return [str(device.index + number) for number in range(device.gpus)]


def mebibytes(tenant: ExportedTenant) -> int:
    """The plan's memory for a tenant on each of its GPUs, rounded up."""
    return -(-tenant.memory_bytes // _MIB)


def _by_size(device: ExportedDevice) -> list[ExportedTenant]:
    """Largest instances first: small ones could take their positions."""
    return sorted(device.tenants, key=lambda tenant: -int(str(tenant.profile).partition("g")[0]))


def _case(device: ExportedDevice, tenant: ExportedTenant, command: ServerCommand | None) -> list[str]:
    """What `machine.sh` has to know of a tenant."""
    settings = [f"memory={mebibytes(tenant) * device.gpus}"]
    if tenant.profile is not None:
        settings.append("instance=yes")
    else:
        settings.append(f"gpus={shell_word(' '.join(gpus_of(device)))}")
    if device.sharing == "mps":
        settings.append(f"mps={device.index}")
    if tenant.percentage is not None:
        settings.append(f"percentage={tenant.percentage}")
    if command is not None:
        settings += [f"ports={shell_word(' '.join(map(str, command.ports)))}", f"ready={shell_word(command.ready)}"]
    lines = [f"        {tenant.key})", f"            {' '.join(settings)}"]
    if command is not None:
        if command.needs:
            lines.append(f"            needs=({shell_words(command.needs)})")
        lines.append(f"            command=({shell_words(command.words)})")
    return [*lines, "            ;;"]
