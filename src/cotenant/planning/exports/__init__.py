"""Export a plan as configuration of other tools. What a tool can't express is an error that names a tool that can."""

SERVERS = ("vllm", "triton")
"""Servers on this machine; several can be named, and each tenant goes to the first that can run it."""
CARRIERS = ("compose", "systemd", "llama-swap")
"""Tools that keep servers running; they go with servers, by default with all."""
TARGETS = (
    "cotenant", *SERVERS, *CARRIERS, "shell",
    "kubernetes", "kubernetes-device-plugin", "kubernetes-hami", "kubernetes-kai", "ray",
)  # fmt: skip
