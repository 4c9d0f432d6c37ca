"""What keeps servers running: Docker Compose, systemd and llama-swap.

Compose starts a container per tenant, each once its predecessor on the same GPU is healthy.

MPS daemons, MIG instances, clocks and power limits are the machine's: `plan.sh` sets them up and starts the containers
in them.
"""

from collections.abc import Sequence
from typing import Any

from cotenant.planning.exports import machine
from cotenant.planning.exports.model import CannotExpress, ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import shell_words, systemd_program, yaml_document
from cotenant.planning.exports.servers import HOST, ServerCommand

NOTE = "containers use the network and IPC of the machine: servers listen on 127.0.0.1, and MPS needs shared memory"
_WORK = "/plan"


def for_compose(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
    """`compose.yaml`, and `plan.sh`, which sets the machine up and starts it."""
    services: dict[str, Any] = {}
    before: dict[int, str] = {}
    for command in commands:
        number = command.device.number
        services[command.tenant.key] = _service(command, before.get(number))
        before[number] = command.tenant.key
    folder = machine.with_servers(plan, commands, more=[NOTE], runner="compose.sh")
    return folder.with_files({"compose.yaml": yaml_document({"services": services})})


def _service(command: ServerCommand, after: str | None) -> dict[str, Any]:
    device, tenant = command.device, command.tenant
    volumes = ["${HF_HOME:-~/.cache/huggingface}:/root/.cache/huggingface"] if tenant.model.generates else []
    volumes += [f"./{path}:{_WORK}/{path}:ro" for path in sorted({name.rpartition("/1/")[0] for name in command.needs})]
    environment: dict[str, str] = {}
    if device.sharing == "mps":
        pipes = f"mps-{device.index}"
        volumes += [f"${{COTENANT_STATE:?run plan.sh up}}/{name}:/{name}" for name in (pipes, f"{pipes}-log")]
        environment = {"CUDA_MPS_PIPE_DIRECTORY": f"/{pipes}", "CUDA_MPS_LOG_DIRECTORY": f"/{pipes}-log"}
    if tenant.percentage is not None:
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(tenant.percentage)
    gpus = machine.gpus_of(device)
    if tenant.profile is not None:
        gpus = [f"${{MIG_{tenant.key.upper().replace('-', '_')}:?run plan.sh up}}"]
    url = f"http://{HOST}:{command.ports[0]}{command.ready}"
    return {
        "image": command.image,
        "entrypoint": [],
        "command": [_plain(word) for word in command.words],
        "working_dir": _WORK,
        "network_mode": "host",
        "ipc": "host",
        **({"environment": environment} if environment else {}),
        **({"volumes": volumes} if volumes else {}),
        "deploy": {
            "resources": {
                "reservations": {"devices": [{"driver": "nvidia", "device_ids": gpus, "capabilities": ["gpu"]}]}
            }
        },
        "healthcheck": {
            "test": ["CMD", "python3", "-c", f"import urllib.request as r; r.urlopen('{url}', timeout=5)"],
            "interval": "5s",
            "timeout": "10s",
            "retries": 3,
            "start_period": "1h",
        },
        **({"depends_on": {after: {"condition": "service_healthy"}}} if after else {}),
    }


def _plain(word: str) -> str:
    """Compose replaces variables in every string; a doubled sign is a sign."""
    return word.replace("$", "$$")


# --- systemd: a unit per tenant, started once its predecessor is ready, after a unit that sets the GPUs up

DEVICES, TARGET = "cotenant-devices.service", "cotenant.target"


def for_systemd(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
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
    for index, command in enumerate(commands):
        after = [DEVICES, *names[max(index - 1, 0) : index]]
        units[names[index]] = _text(
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


# --- llama-swap: an address for all tenants that generate, and the set of models that may be loaded together

QUEUE = 1024
"""Requests that a model may have at once; servers queue what they don't run yet, llama-swap would refuse it."""


def for_llama_swap(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
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
