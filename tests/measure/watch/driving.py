"""Traffic for servers under test, and waiting for events."""

import contextlib
import socket
import threading
import urllib.request

from tests.support import pace


def address_of(server):
    return f"http://127.0.0.1:{server.server_address[1]}"


@contextlib.contextmanager
def traffic(url, *, work_s=0.005, gap_s=0.02):
    """One client that sends requests until the end."""
    over = threading.Event()

    def send():
        while not over.wait(gap_s):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/busy/{work_s}", timeout=pace.seconds(5)).read()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(pace.seconds(10))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
