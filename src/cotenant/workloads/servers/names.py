"""What the names of servers begin with. Light: a study asks before anything is loaded."""

OPENAI = "openai:"
V2 = "v2:"
V2_GRPC = "v2:grpc:"
SERVERS = ("https://", "http:/", OPENAI, V2)
SERVER_FORMS = ("openai:", "v2:", "v2:grpc:", "http:/path")
"""As they are written where cotenant starts the server."""


def is_server(name: str) -> bool:
    """It takes several requests at once: one after another says nothing about what it can do."""
    return name.startswith(SERVERS)
