"""Assigns blocks to devices. Pure: results, losses and requests arrive as calls.

A block is never divided over devices: its trials are compared with each other. Workers take the next unassigned block;
replicates each go through all blocks. A block that a lost worker had begun goes to another one from its start.
"""

from collections.abc import Callable, Mapping, Sequence

Todo = Callable[[int, str], bool]
"""True if a block has anything left to do on a host."""


class Dispatch:
    """Blocks, and the hosts they are assigned to."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        divided: bool,
        blocks_max: int,
        todo: Todo,
        turns: Mapping[str, str] | None = None,
    ) -> None:
        """Create a dispatcher.

        Args:
            hosts: The participating hosts.
            divided: True: each block is done once, by any host. False: each host does every block.
            blocks_max: Blocks are numbered from 0 to below this.
            todo: Called once for each block and host.
            turns: Hosts with the same value don't work at the same time.
        """
        self.hosts = list(hosts)
        self._divided, self._max, self._todo, self._turns = divided, blocks_max, todo, dict(turns or {})
        self._next = dict.fromkeys(hosts, 0)
        self._first = 0
        self._returned: list[int] = []
        self.owned: dict[str, int] = {}
        self.stopped = False

    @property
    def begun(self) -> int:
        """One more than the highest block ever assigned."""
        return self._first if self._divided else max(self._next.values(), default=0)

    @property
    def finished(self) -> int:
        """Blocks that are done or not needed; if every host does all blocks, those that all of them have done."""
        if self._divided:
            return self._first - len(self.owned) - len(self._returned)
        return min((self._next[host] - (host in self.owned) for host in self.hosts), default=0)

    def next(self, host: str) -> int | None:
        """Assign a block to the host; None: it has one, there is none left for it, or it isn't its turn."""
        if host in self.owned or host not in self.hosts or self._another_turn(host):
            return None
        block = self._take(host)
        if block is not None:
            self.owned[host] = block
        return block

    def done(self, host: str) -> None:
        """The host's block is on disk."""
        self.owned.pop(host, None)

    def lose(self, host: str) -> int | None:
        """The host is gone; return the block that it had begun."""
        self.hosts = [one for one in self.hosts if one != host]
        block = self.owned.pop(host, None)
        if block is not None and self._divided:
            self._returned.append(block)
        return block

    def stop(self) -> None:
        """Assign no new blocks; those already begun are still finished."""
        self.stopped = True

    @property
    def over(self) -> bool:
        """Nothing is in progress, and nothing is left."""
        return not self.owned and not any(self._peek(host) for host in self.hosts)

    def _another_turn(self, host: str) -> bool:
        mine = self._turns.get(host)
        return mine is not None and any(self._turns.get(other) == mine for other in self.owned)

    def _take(self, host: str) -> int | None:
        if self._returned:  # once begun, a block is finished even if no more are wanted
            return self._returned.pop(0)
        if self.stopped:
            return None
        block = self._free(host)
        if block is None:
            return None
        if self._divided:
            self._first = block + 1
        else:
            self._next[host] = block + 1
        return block

    def _free(self, host: str) -> int | None:
        """The next block with something to do; the others are skipped for good."""
        start = self._first if self._divided else self._next[host]
        for block in range(start, self._max):
            if self._todo(block, host):
                return block
            if self._divided:
                self._first = block + 1
            else:
                self._next[host] = block + 1
        return None

    def _peek(self, host: str) -> bool:
        return bool(self._returned) or (not self.stopped and self._free(host) is not None)
