"""What the names of servers begin with. Light: a study asks before anything is loaded."""

OPENAI = "openai:"
V2 = "v2:"
SERVERS = ("https://", "http:/", OPENAI, V2)
SERVER_FORMS = ("openai:", "v2:", "http:/path")
"""As they are written where cotenant starts the server."""


def is_server(name: str) -> bool:
    """It takes several requests at once: one after another says nothing about what it can do."""
    return name.startswith(SERVERS)
