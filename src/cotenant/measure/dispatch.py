"""Assigns blocks to hosts. Pure: results, losses and requests arrive as calls.

A block is never divided over hosts: its trials are compared with each other. Where hosts divide the work, each takes
the next unassigned blocks; otherwise each goes through all of them. A block that a lost host had begun goes to another
one from its start.
"""

from collections.abc import Callable, Mapping, Sequence

from cotenant.measure.bench import Stretch
from cotenant.tenancy.nouns import Trial

Missing = Callable[[int, str], Sequence[Trial]]
"""The trials of a block that are left to do on a host."""


class Dispatch:
    """Blocks, and the hosts they are assigned to."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        divided: bool,
        blocks_max: int,
        missing: Missing,
        stretch_s: float = 0.0,
        turns: Mapping[str, str] | None = None,
    ) -> None:
        """Create a dispatcher.

        Args:
            hosts: The participating hosts.
            divided: True: each block is done once, by any host. False: each host does every block.
            blocks_max: Blocks are numbered from 0 to below this.
            missing: Called once for each block and host.
            stretch_s: Blocks are assigned together until their trials take this long.
            turns: Hosts with the same value don't work at the same time.
        """
        self.hosts = list(hosts)
        self._divided, self._max, self._missing, self._turns = divided, blocks_max, missing, dict(turns or {})
        self._stretch_s = stretch_s
        self._next = dict.fromkeys(hosts, 0)
        self._first = 0
        self._returned: list[int] = []
        self.owned: dict[str, Stretch] = {}
        self.stopped = False

    @property
    def begun(self) -> int:
        """One more than the highest block ever assigned."""
        return self._first if self._divided else max(self._next.values(), default=0)

    @property
    def finished(self) -> int:
        """Blocks that are done or not needed; if every host does all blocks, those that all of them have done."""
        owned = {host: stretch.after - stretch.first for host, stretch in self.owned.items()}
        if self._divided:
            return self._first - sum(owned.values()) - len(self._returned)
        return min((self._next[host] - owned.get(host, 0) for host in self.hosts), default=0)

    def next(self, host: str) -> Stretch | None:
        """Assign blocks to the host; None: it has some, there are none left for it, or it isn't its turn."""
        if host in self.owned or host not in self.hosts or self._another_turn(host):
            return None
        stretch = self._take(host)
        if stretch is not None:
            self.owned[host] = stretch
        return stretch

    def done(self, host: str) -> None:
        """The host's blocks are on disk."""
        self.owned.pop(host, None)

    def lose(self, host: str) -> Stretch | None:
        """The host is gone; return what it had begun."""
        self.hosts = [other for other in self.hosts if other != host]
        stretch = self.owned.pop(host, None)
        if stretch is not None and self._divided:
            self._returned += range(stretch.first, stretch.after)
        return stretch

    def stop(self) -> None:
        """Assign no new blocks; those already begun are still finished."""
        self.stopped = True

    def _another_turn(self, host: str) -> bool:
        mine = self._turns.get(host)
        return mine is not None and any(self._turns.get(other) == mine for other in self.owned)

    def _take(self, host: str) -> Stretch | None:
        while self._returned:  # once begun, a block is finished even if no more are wanted
            block = self._returned.pop(0)
            if trials := tuple(self._missing(block, host)):
                return Stretch(block, block + 1, trials)
        return None if self.stopped else self._new(host)

    def _new(self, host: str) -> Stretch | None:
        """The next blocks with something to do; the others are skipped for good."""
        first: int | None = None
        trials: list[Trial] = []
        block = self._first if self._divided else self._next[host]
        while block < self._max and (not trials or _seconds(trials) < self._stretch_s):
            missing = self._missing(block, host)
            if missing and first is None:
                first = block
            trials += missing
            block += 1
        if self._divided:
            self._first = block
        else:
            self._next[host] = block
        return None if first is None else Stretch(first, block, tuple(trials))


def _seconds(trials: Sequence[Trial]) -> float:
    return sum(trial.window_s + trial.lead_s for trial in trials)
