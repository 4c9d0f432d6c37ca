"""The pool of tenant processes. They stay up between trials, so that a block takes seconds instead of minutes.

An idle tenant sleeps on its control socket and holds only memory; when memory runs short, the longest-idle tenant
is ended. A process that hosts several tenants (threads, streams) also serves mixes of some of them.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cotenant.devices.protocol import HostPlan, SeatPlan
from cotenant.errors import TenantFailed
from cotenant.measure.tenants.host_process import HostProcess, answers
from cotenant.measure.tenants.messages import SeatReady
from cotenant.measure.tenants.reaper import Reaper
from cotenant.measure.tenants.starting import Starter
from cotenant.tenancy.nouns import Tenant
from cotenant.text import listed

log = logging.getLogger(__name__)

BUILD_TIMEOUT_S = 900.0
GIVE_UP_AFTER = 2
"""A tenant that failed to build this often in a row is not tried again in this run."""

SeatKey = tuple[str, int | None, str]


@dataclass(slots=True)
class HostPlacement:
    """Where the tenants of a host plan are: a process, and each tenant's seat in it."""

    host: HostProcess
    seats: tuple[int, ...]


@dataclass(slots=True)
class _Pooled:
    host: HostProcess
    env: frozenset[tuple[str, str]]
    keys: tuple[SeatKey, ...]
    memory_bytes: int
    used: float = 0.0


class TenantPool:
    """Starts tenant processes, reuses them, and ends them."""

    def __init__(
        self,
        device: str,
        *,
        board_fd: int,
        memory_bytes: int,
        memory_of: Callable[[Tenant], int],
        process_bytes: int,
        at_once: int,
        warm_s: tuple[float, float],
    ) -> None:
        self._device, self._board_fd, self._warm_s = device, board_fd, warm_s
        self._memory_bytes, self._at_once = memory_bytes, max(at_once, 1)
        self._memory_of, self._process_bytes = memory_of, process_bytes
        self._pooled: list[_Pooled] = []
        self._failures: Counter[SeatKey] = Counter()
        self._sentences: dict[SeatKey, str] = {}
        self._reaper = Reaper()
        self._starter = Starter(self._reaper.mark)

    @property
    def mark(self) -> str:
        """By which the run's processes are found."""
        return self._reaper.mark

    def place(
        self, plans: Sequence[HostPlan], tenants: Sequence[Tenant], *, keep: Sequence[HostProcess] = ()
    ) -> list[HostPlacement] | None:
        """Return processes for all hosts of a trial, starting missing ones. Raises TenantFailed.

        None if there is no room for them besides those to keep.
        """
        taken: list[_Pooled] = []
        kept = [entry for entry in self._pooled if entry.host in keep]
        for plan in plans:
            entry = self._match(plan, tenants, exclude=taken)
            if entry is None:
                needed = self._needed_bytes(tenants[seat.tenant] for seat in plan.seats)
                self._make_room(needed, keep=[*taken, *kept])
                if kept and self._held_bytes() + needed > self._memory_bytes:
                    return None
                entry = self._start(plan, tenants)
                self._await_server(entry)
            taken.append(entry)
        self._await_ready(taken)
        for entry in taken:
            entry.used = time.monotonic()
        return [
            HostPlacement(entry.host, _seats_for(plan, tenants, entry.keys))
            for plan, entry in zip(plans, taken, strict=True)
        ]

    def prefetch(self, trials: Sequence[tuple[Sequence[HostPlan], Sequence[Tenant]]]) -> None:
        """Start what a block needs, several at once, as far as memory allows. Raises TenantFailed."""
        waiting: list[_Pooled] = []
        for plans, tenants in sorted(trials, key=lambda t: -max(len(plan.seats) for plan in t[0])):
            taken: list[_Pooled] = []
            for plan in plans:
                entry = self._match(plan, tenants, exclude=taken)
                needed = self._needed_bytes(tenants[seat.tenant] for seat in plan.seats)
                if entry is None:
                    if self._held_bytes() + needed > self._memory_bytes:
                        break
                    entry = self._start(plan, tenants)
                    self._await_server(entry)
                    waiting.append(entry)
                    if len(waiting) >= self._at_once:
                        self._await_ready(waiting)
                        waiting = []
                taken.append(entry)
        self._await_ready(waiting)

    def request_times(self) -> dict[str, float]:
        """Seconds of a warm request of each running workload, as undisturbed as observed."""
        found: dict[str, float] = {}
        for entry in self._pooled:
            if entry.host.ready is not None:
                for (workload, _, _), seat in zip(entry.keys, entry.host.ready.seats, strict=True):
                    if seat.error is None:
                        found[workload] = min(seat.undisturbed_s, found.get(workload, seat.undisturbed_s))
        return found

    def pids(self) -> frozenset[int]:
        """Processes of the study: those running, and their children."""
        import psutil

        mine = {pid for entry in self._pooled for pid in entry.host.pids()}
        with suppress(psutil.Error):
            mine |= {child.pid for child in psutil.Process().children(recursive=True)}
        return frozenset(mine)

    def servers(self) -> tuple[int, ...]:
        """Processes of the running servers, idle ones included: an idle server may poll."""
        return tuple(pid for entry in self._pooled for pid in entry.host.pids()[1:])

    def drop(self, host: HostProcess) -> None:
        """Drop a process that is dead or must not be reused."""
        self._pooled = [entry for entry in self._pooled if entry.host is not host]
        if host.alive:
            host.close()

    def clear(self) -> None:
        """End them all: the next block gets new ones."""
        for entry in self._pooled:
            entry.host.dismiss()
        for entry in self._pooled:
            entry.host.close()
        self._pooled = []
        self._starter.close()  # forks share a memory layout: fresh processes need a fresh server too

    def close(self) -> None:
        """End them all for good."""
        self.clear()
        self._reaper.close()

    def kill(self) -> None:
        """End them all at once."""
        for entry in self._pooled:
            entry.host.kill("was ended with the run")
        self._pooled = []
        self._starter.close()
        self._reaper.close()

    def _match(self, plan: HostPlan, tenants: Sequence[Tenant], exclude: Sequence[_Pooled]) -> _Pooled | None:
        wanted = Counter(_key(tenants[seat.tenant], seat) for seat in plan.seats)
        env = frozenset(plan.env.items())
        for entry in self._pooled:
            if entry in exclude or entry.env != env or not entry.host.still_alive():
                continue
            # One tenant per process is a promise: a process with several seats can't replace it.
            if len(plan.seats) == 1 and len(entry.keys) > 1:
                continue
            if wanted <= Counter(entry.keys):
                return entry
        return None

    def _start(self, plan: HostPlan, tenants: Sequence[Tenant]) -> _Pooled:
        mine = [tenants[seat.tenant] for seat in plan.seats]
        keys = tuple(_key(tenant, seat) for tenant, seat in zip(mine, plan.seats, strict=True))
        for key, tenant in zip(keys, mine, strict=True):
            if self._failures[key] >= GIVE_UP_AFTER:
                raise TenantFailed(f"{tenant.name} was given up after {GIVE_UP_AFTER} failures: {self._sentences[key]}")
        log.info("starting a process for %s", ", ".join(tenant.name for tenant in mine))
        host = HostProcess(
            self._device,
            plan,
            mine,
            board_fd=self._board_fd,
            warm_s=self._warm_s,
            mark=self._reaper.mark,
            start=self._starter.start,
        )
        entry = _Pooled(host, frozenset(plan.env.items()), keys, self._needed_bytes(mine), time.monotonic())
        self._pooled.append(entry)
        return entry

    def _await_server(self, entry: _Pooled) -> None:
        """Start servers in turn: two that check the free memory at once would both claim it."""
        if any(tenant.workload.server is not None for tenant in entry.host.tenants):
            self._await_ready([entry])

    def _await_ready(self, pooled: Sequence[_Pooled]) -> None:
        waiting = [entry.host for entry in pooled if entry.host.alive and entry.host.ready is None]
        silent = set(waiting)
        until_ns = time.monotonic_ns() + int(BUILD_TIMEOUT_S * 1e9)
        for host, _ in answers(waiting, lambda: until_ns):
            silent.discard(host)
        for host in silent:
            host.kill(f"was not ready after {BUILD_TIMEOUT_S:g} s")
        for entry in pooled:
            self._raise_if_failed(entry)

    def _raise_if_failed(self, entry: _Pooled) -> None:
        host = entry.host
        sentences = []
        if not host.alive:
            names = listed([tenant.name for tenant in host.tenants])
            names = names if len(host.tenants) == 1 else f"the process of {names}"
            sentences = [f"{names} {host.fate}" for _ in host.tenants]
        elif host.ready is not None and any(seat.error for seat in host.ready.seats):
            sentences = [
                _not_built(tenant, seat) if seat.error else ""
                for tenant, seat in zip(host.tenants, host.ready.seats, strict=True)
            ]
        failed = [(key, sentence) for key, sentence in zip(entry.keys, sentences, strict=False) if sentence]
        if not failed:
            for key in entry.keys:
                self._failures.pop(key, None)
        else:
            for key, sentence in failed:
                self._failures[key] += 1
                self._sentences[key] = sentence
            self.drop(host)
            raise TenantFailed(failed[0][1], hint="run it alone first, or ask `cotenant workloads` what it needs")

    def _needed_bytes(self, tenants: Iterable[Tenant]) -> int:
        """Of a process with these tenants."""
        return self._process_bytes + sum(map(self._memory_of, tenants))

    def _held_bytes(self) -> int:
        return sum(entry.memory_bytes for entry in self._pooled)

    def _make_room(self, needed: int, keep: Sequence[_Pooled]) -> None:
        idle = sorted((r for r in self._pooled if r not in keep), key=lambda r: r.used)
        while idle and self._held_bytes() + needed > self._memory_bytes:
            entry = idle.pop(0)
            log.info("ending the idle process %d: %d bytes are needed", entry.host.pid, needed)
            self.drop(entry.host)


def _not_built(tenant: Tenant, seat: SeatReady) -> str:
    how = "ran out of memory while it was built" if seat.out_of_memory else "could not be built"
    return f"{tenant.name} {how}: {seat.error}"


def _key(tenant: Tenant, seat: SeatPlan) -> SeatKey:
    """Key of interchangeable seats: same workload and kind of place, whatever the load or name."""
    return tenant.workload.model_dump_json(), tenant.threads, json.dumps(seat.options, sort_keys=True, default=str)


def _seats_for(plan: HostPlan, tenants: Sequence[Tenant], keys: Sequence[SeatKey]) -> tuple[int, ...]:
    free = list(enumerate(keys))
    seats = []
    for seat in plan.seats:
        wanted = _key(tenants[seat.tenant], seat)
        found = next(item for item in free if item[1] == wanted)
        free.remove(found)
        seats.append(found[0])
    return tuple(seats)
