"""Your own workloads: a Python function, a model file, a command, a server of any kind."""

import re
from collections.abc import Callable
from pathlib import Path

from cotenant.workloads.protocol import Workload
from cotenant.workloads.servers.openai import OpenAIServer
from cotenant.workloads.servers.spec import OPENAI, V2
from cotenant.workloads.servers.v2 import V2Server
from cotenant.workloads.yours import onnx_file, torchscript_file
from cotenant.workloads.yours.command import PREFIX, Command
from cotenant.workloads.yours.endpoint import Endpoint
from cotenant.workloads.yours.function import Function
from cotenant.workloads.yours.onnx_file import OnnxFile
from cotenant.workloads.yours.torchscript_file import TorchScriptFile

_FUNCTION = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$")


_BY_PREFIX: dict[tuple[str, ...], Callable[[str], Workload]] = {
    (PREFIX,): Command,
    ("https://", "http:/"): Endpoint,
    (OPENAI,): OpenAIServer,
    (V2,): V2Server,
}


def recognise(name: str) -> Workload | None:
    """The workload described by the form of this name, or None if it has none of the forms."""
    for prefixes, kind in _BY_PREFIX.items():
        if name.startswith(prefixes):
            return kind(name)
    suffix = Path(name).suffix.lower()
    if suffix in torchscript_file.SUFFIXES:
        return TorchScriptFile(name)
    if suffix in onnx_file.SUFFIXES:
        return OnnxFile(name)
    if _FUNCTION.match(name):
        return Function(name)
    return None
