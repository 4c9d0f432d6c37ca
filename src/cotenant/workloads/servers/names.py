"""Prefixes of server names. Light: a study checks them before anything is loaded."""

OPENAI = "openai:"
V2 = "v2:"
V2_GRPC = "v2:grpc:"
SERVERS = ("https://", "http:/", OPENAI, V2)
SERVER_FORMS = ("openai:", "v2:", "v2:grpc:", "http:/path")
"""As written where cotenant starts the server."""


def is_server(name: str) -> bool:
    """True if it takes several requests at once: one at a time says nothing about its capacity."""
    return name.startswith(SERVERS)
