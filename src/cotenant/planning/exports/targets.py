"""Export targets by name."""

from collections.abc import Callable, Mapping, Sequence

from cotenant.errors import CotenantError
from cotenant.planning.exports import CARRIERS, SERVERS, TARGETS, machine, servers, triton
from cotenant.planning.exports.carriers import for_compose, for_llama_swap, for_systemd
from cotenant.planning.exports.kubernetes import (
    DEVICE_PLUGIN,
    HAMI,
    KAI,
    for_device_plugin,
    for_hami,
    for_kai,
    for_kubernetes,
)
from cotenant.planning.exports.model import CannotExpress, ExportedDevice, ExportedFolder, ExportedPlan, ExportedTenant
from cotenant.planning.exports.quoting import markdown, yaml_document
from cotenant.planning.exports.servers import MakeCommand, commands_for
from cotenant.planning.inputs.studies import study_of

# --- ray Serve: a deployment per tenant with a fraction of a GPU, and a placement group per device


def for_ray(plan: ExportedPlan) -> ExportedFolder:
    """`serve.yaml` for `serve deploy`."""
    applications = []
    for device in plan.devices:
        if device.sharing == "mig":
            raise CannotExpress("ray", f"the MIG instances on {device.name}", "kubernetes")
        if device.sharing == "mps":
            raise CannotExpress("ray", f"MPS on {device.name}: its actors don't join an MPS daemon", "shell")
        fraction = 1.0 if len(device.tenants) == 1 else int(1e4 / len(device.tenants)) / 1e4
        for tenant in device.tenants:
            name = tenant.key
            options = {"num_gpus": fraction * device.gpus, "resources": {f"cotenant_device_{device.number}": 0.001}}
            applications.append(
                {
                    "name": name,
                    "route_prefix": f"/{name}",
                    "import_path": f"REPLACE.{tenant.workload_key.replace('-', '_')}:app",
                    "deployments": [
                        {
                            "name": name,
                            "num_replicas": 1,
                            "max_ongoing_requests": max(2 * tenant.at_once, 2),
                            "ray_actor_options": options,
                        }
                    ],
                }
            )
    notes = [
        "name your applications in place of REPLACE, then run serve deploy serve.yaml; serve shutdown stops them",
        "start each node with --resources that name its devices: cotenant_device_N",
        "neither memory nor compute is limited: fractions only decide which tenants share a GPU",
    ]
    return ExportedFolder({"serve.yaml": yaml_document({"applications": applications})}, tuple(notes))


# --- export for cotenant itself: the plan, and a study per device that measures its predictions


def for_cotenant(plan: ExportedPlan) -> ExportedFolder:
    """`plan.yaml`, and `measure-N.yaml` for `cotenant run`."""
    document = plan.document()
    files = {"plan.yaml": yaml_document(document.to_data())}
    for device in plan.devices:
        if device.gpus == 1:
            about = f"What the plan expects of {device.name}, measured."
            study = study_of(document.devices[device.number], about=about)
            files[f"measure-{device.number}.yaml"] = yaml_document(study)
    devices = ", ".join(device.name for device in plan.devices)
    notes = ["serve it with cotenant serve plan.yaml --device NAME, one server per device: " + devices]
    return ExportedFolder(files, tuple(notes))


_COMMANDS: Mapping[str, MakeCommand] = {"vllm": servers.command, "triton": triton.command}
_CARRIERS = {"compose": for_compose, "systemd": for_systemd, "llama-swap": for_llama_swap}
_EXPORTS: Mapping[str, Callable[[ExportedPlan], ExportedFolder]] = {
    "cotenant": for_cotenant,
    "shell": machine.export,
    "kubernetes": for_kubernetes,
    DEVICE_PLUGIN: for_device_plugin,
    HAMI: for_hami,
    KAI: for_kai,
    "ray": for_ray,
}


def export(plan: ExportedPlan, targets: str) -> ExportedFolder:
    """A plan as the configuration of a tool, with a README.

    Args:
        plan: The plan.
        targets: A target, or several servers separated by commas, and what keeps them running.

    Raises:
        CotenantError: There is no such target, or they don't go together.
        CannotExpress: A target can't express the plan.
    """
    names = list(dict.fromkeys(name.strip() for name in targets.split(",")))
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise CotenantError(f"there is no export for {unknown[0]!r}", hint=f"choose one of {', '.join(TARGETS)}")
    folder = _folder(plan, names)
    return folder.with_files({"README.md": readme(plan, folder, names)})


def _folder(plan: ExportedPlan, names: Sequence[str]) -> ExportedFolder:
    servers = [name for name in names if name in SERVERS]
    others = [name for name in names if name not in SERVERS]
    if len(others) > 1 or (others and servers and others[0] not in CARRIERS):
        raise CotenantError(
            f"{others[0]} can't be combined with {next(name for name in names if name != others[0])}",
            hint=f"servers ({', '.join(SERVERS)}) go together, and with one of {', '.join(CARRIERS)}; "
            "write other exports to other folders",
        )
    carrier = others[0] if others else None
    if names != ["cotenant"]:
        for device in plan.devices:
            if device.sharing not in SHARED:  # nothing else divides SMs within a process, or orders requests
                raise CannotExpress(names[-1], f"`{device.sharing}` on {device.name}", "cotenant")
    if carrier is not None and carrier not in CARRIERS:
        return _EXPORTS[carrier](plan)
    commands = commands_for(plan, _COMMANDS, servers or SERVERS)
    return _CARRIERS[carrier](plan, commands) if carrier else machine.with_servers(plan, commands)


# --- README.md of an export: how to start it, what runs where, and what the target can't express

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
