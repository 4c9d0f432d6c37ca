"""Export a plan as configuration of other tools. What a tool can't express is an error that names a tool that can."""

from typing import TYPE_CHECKING

from cotenant.front import front

SERVERS = ("vllm", "triton")
"""Servers on this machine; several can be named, and each tenant goes to the first that can run it."""
CARRIERS = ("compose", "systemd", "llama-swap")
"""Tools that keep servers running; they go with servers, by default with all."""
TARGETS = (
    "cotenant", *SERVERS, *CARRIERS, "shell",
    "kubernetes", "kubernetes-device-plugin", "kubernetes-hami", "kubernetes-kai", "ray",
)  # fmt: skip

if TYPE_CHECKING:
    from cotenant.planning.exports.copies_script import export_copies
    from cotenant.planning.exports.model import Model, exported
    from cotenant.planning.exports.targets import SHARED, export
else:
    __getattr__, __dir__ = front(__name__, __file__)
