"""Docker Compose: a container per tenant, started when the one before it on the same GPU is healthy.

MPS daemons, MIG instances, clocks and power limits are the machine's: `plan.sh` sets them up and starts the containers
in them.
"""

from collections.abc import Sequence
from typing import Any

from cotenant.planning.exports import machine
from cotenant.planning.exports.model import ExportedFolder, ExportedPlan
from cotenant.planning.exports.quoting import yaml_document
from cotenant.planning.exports.servers import HOST, ServerCommand

NOTE = "containers use the network and IPC of the machine: servers listen on 127.0.0.1, and MPS needs shared memory"
_WORK = "/plan"


def export(plan: ExportedPlan, commands: Sequence[ServerCommand]) -> ExportedFolder:
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
