"""Export targets by name."""

from collections.abc import Callable, Mapping, Sequence

from cotenant.errors import CotenantError
from cotenant.planning.exports import (
    compose,
    cotenant,
    device_plugin,
    hami,
    kai,
    kubernetes,
    llama_swap,
    machine,
    ray,
    systemd,
    triton,
    vllm,
)
from cotenant.planning.exports.model import ExportedFolder, ExportedPlan
from cotenant.planning.exports.names import CARRIERS, SERVERS, TARGETS
from cotenant.planning.exports.readme import readme
from cotenant.planning.exports.servers import MakeCommand, commands_for

_COMMANDS: Mapping[str, MakeCommand] = {"vllm": vllm.command, "triton": triton.command}
_CARRIERS = {"compose": compose.export, "systemd": systemd.export, "llama-swap": llama_swap.export}
_EXPORTS: Mapping[str, Callable[[ExportedPlan], ExportedFolder]] = {
    "cotenant": cotenant.export,
    "shell": machine.export,
    "kubernetes": kubernetes.export,
    device_plugin.TARGET: device_plugin.export,
    hami.TARGET: hami.export,
    kai.TARGET: kai.export,
    "ray": ray.export,
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
    if carrier is not None and carrier not in CARRIERS:
        return _EXPORTS[carrier](plan)
    machine.check(plan, carrier or servers[0])
    commands = commands_for(plan, _COMMANDS, servers or SERVERS)
    return _CARRIERS[carrier](plan, commands) if carrier else machine.with_servers(plan, commands)
