"""llama-swap: one address for all tenants that generate, and the set of models that may be loaded at the same time.

llama-swap starts each server by `plan.sh serve TENANT`, which puts it inside the sharing.
"""

from collections.abc import Sequence

from cotenant.planning.exports import machine
from cotenant.planning.exports.model import CannotExpress, ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import shell_words, yaml_document
from cotenant.planning.exports.servers import HOST, ServerCommand

QUEUE = 1024
"""Requests that a model may have at once; servers queue what they don't run yet, llama-swap would refuse it."""


def export(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
    """`llama-swap.yaml`, and `plan.sh`, which sets the machine up and starts llama-swap."""
    for command in commands:
        if not command.tenant.model.generates:
            raise CannotExpress("llama-swap", f"{command.tenant.name}, which doesn't generate", "vllm,triton")
    keys = [command.tenant.key for command in commands]
    short = {f"m{number}": key for number, key in enumerate(keys)}
    config = {
        "healthCheckTimeout": 3600,
        "models": {
            command.tenant.key: {
                "cmd": shell_words(["./plan.sh", "serve", command.tenant.key]),
                "proxy": f"http://{HOST}:{command.ports[0]}",
                "checkEndpoint": command.ready,
                "ttl": 0,
                "concurrencyLimit": QUEUE,
            }
            for command in commands
        },
        "matrix": {"vars": short, "sets": {"plan": " & ".join(short)}},
        "hooks": {"on_startup": {"preload": keys}},
    }
    door = commands[-1].ports[-1] + 1
    notes = [
        f"all tenants answer at http://{HOST}:{door}; requests name a tenant as their model",
        "a model that you add to llama-swap.yaml is swapped with none of the plan's unless you write another set",
        "memory isn't checked: llama-swap starts servers, and plan.sh sees only whether they are attached to MPS",
    ]
    folder = machine.with_servers(plan, commands, more=notes, runner="llama_swap.sh", settings={"door": str(door)})
    return folder.with_files({"llama-swap.yaml": yaml_document(config)})
