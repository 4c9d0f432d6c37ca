"""Waits for the answers of several tenant processes at once, and notices when one dies."""

import selectors
import time
from collections.abc import Callable, Iterator, Sequence

from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.messages import HostReady, HostResult

LOOK_S = 1.0
"""How often a tenant's log is checked, so that endless output can't fill the disk during a trial."""


def answers(
    hosts: Sequence[HostProcess], until_ns: Callable[[], int]
) -> Iterator[tuple[HostProcess, HostReady | HostResult | None]]:
    """Yield each host with its answer as it arrives, or with None once it is dead; silent ones are not yielded."""
    yield from ((host, None) for host in hosts if not host.alive)
    watched = {host: host.descriptors() for host in hosts if host.alive}
    with selectors.DefaultSelector() as selector:
        for host, descriptors in watched.items():
            for descriptor in descriptors:
                selector.register(descriptor, selectors.EVENT_READ, host)
        while watched and (left_ns := until_ns() - time.monotonic_ns()) > 0:
            events = selector.select(min(left_ns / 1e9, LOOK_S))
            for host in dict.fromkeys(key.data for key, _ in events):
                answer = host.receive()
                if answer is None and host.alive:
                    continue
                for descriptor in watched.pop(host):
                    selector.unregister(descriptor)
                yield host, answer
            for host in watched:
                host.trim_log()
