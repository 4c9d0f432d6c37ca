"""Quote user text in files of other tools: a function per language; comments never contain names."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from cotenant.planning.exports.model import ExportedFolder, ExportedPlan


def shell_word(text: str) -> str:
    """A word of a shell command."""
    return shlex.quote(text)


def shell_words(words: Sequence[str]) -> str:
    """Words of a shell command."""
    return shlex.join(words)


def yaml_document(data: Any) -> str:
    """A YAML document."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def yaml_documents(data: Sequence[Any]) -> str:
    """Several YAML documents in the same text."""
    return yaml.safe_dump_all(data, sort_keys=False, allow_unicode=True, width=100, explicit_start=True)


def json_text(data: Any) -> str:
    """A JSON file."""
    return json.dumps(data, indent=2) + "\n"


def cel_string(text: str) -> str:
    """A string of the Common Expression Language."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def markdown(text: str) -> str:
    """Text of a Markdown page or table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", text)


def systemd_program(text: str) -> str:
    """The program of a command in a unit, where systemd expands `%` but no variables."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


# --- names of export targets, for the command line, which loads nothing else

SERVERS = ("vllm", "triton")
"""Servers on this machine; several can be named, and each tenant goes to the first that can run it."""
CARRIERS = ("compose", "systemd", "llama-swap")
"""Tools that keep servers running; they go with servers, by default with all."""
TARGETS = (
    "cotenant", *SERVERS, *CARRIERS, "shell",
    "kubernetes", "kubernetes-device-plugin", "kubernetes-hami", "kubernetes-kai", "ray",
)  # fmt: skip


# --- `plan.sh` for a cluster: applies manifests tenant by tenant, and deletes them

IMAGES = "images are still to be named: write yours in place of REPLACE-WITH-THE-IMAGE-OF"


def with_script(plan: ExportedPlan, manifests: Mapping[str, str], notes: Sequence[str] = ()) -> ExportedFolder:
    """Manifests and the script that applies them."""
    keys = [tenant.key for device in plan.devices for tenant in device.tenants]
    library = files(__package__).joinpath("manifests.sh").read_text(encoding="utf-8")
    lines = [f"manifests=({shell_words(list(manifests))})", f"tenants=({shell_words(keys)})", 'main "$@"']
    return ExportedFolder(
        files={**manifests, "plan.sh": f"{library}\n# --- the plan\n\n" + "\n".join(lines) + "\n"},
        notes=(IMAGES, *notes, *_unheld(plan)),
    )


def _unheld(plan: ExportedPlan) -> list[str]:
    """What no Kubernetes target sets."""
    notes = []
    if any(device.clock_mhz or device.power_limit_w for device in plan.devices):
        notes.append("clocks and power limits aren't set: set them on the nodes with nvidia-smi")
    if any(tenant.priority for device in plan.devices for tenant in device.tenants):
        notes.append("priorities are only passed on as COTENANT_PRIORITY: pods on a GPU don't order requests")
    return notes
