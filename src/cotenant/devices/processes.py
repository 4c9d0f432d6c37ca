"""Verifies that tenants sit in the processes their sharing mode needs."""

from collections.abc import Iterator, Mapping, Sequence

from cotenant.devices.protocol import HostPlan, SeatReport


def wrong_processes(
    mode: str, tenants: Sequence[str], hosts: Sequence[HostPlan], reports: Mapping[str, SeatReport]
) -> Iterator[str]:
    """A sentence for each planned process whose tenants are spread over several, and for each shared by two plans."""
    first_in: dict[int, tuple[int, str]] = {}
    for number, host in enumerate(hosts):
        names = [name for seat in host.seats if (name := tenants[seat.tenant]) in reports]
        pids = {reports[name].pid for name in names}
        if len(pids) > 1:
            yield f"{' and '.join(names)} sit in {len(pids)} processes; `{mode}` needs them in one"
        for name in names:
            pid = reports[name].pid
            where, other = first_in.setdefault(pid, (number, name))
            if where != number:
                yield f"{other} and {name} share process {pid}; `{mode}` needs one each"
