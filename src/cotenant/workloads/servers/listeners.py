"""The processes that serve a port of this machine: their resource use counts for the tenant."""

from cotenant.workloads.servers.address import Address


def listening(address: Address) -> tuple[int, ...]:
    """Processes that listen there; empty if the server is elsewhere or another user's."""
    if not address.local:
        return ()
    import psutil

    try:
        found = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return ()
    pids = {
        one.pid
        for one in found
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == address.port and one.pid is not None
    }
    return tuple(sorted(pids))
