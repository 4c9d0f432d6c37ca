"""One process for several workers, each in a thread of its own with its part of a GPU: they start and end together."""

import asyncio
from collections.abc import Callable, Mapping

from cotenant.serving.processes.remote import Remote
from cotenant.serving.worker.bench import Ended


class SharedProcess:
    """Hands out the workers of a process; those of a new one once a worker of it was handed out before or has died."""

    def __init__(self, places: int, env: Mapping[str, str]) -> None:
        self._places = places
        self._env = env
        self._free: dict[int, Remote] = {}
        self._changing = asyncio.Lock()

    async def hire(self, place: int, ended: Callable[[Ended], None]) -> Remote:
        """The worker of this place, which reports ended chunks to the function."""
        async with self._changing:
            found = self._free.pop(place, None)
            if found is None or found.dead:
                await self._renew()
                found = self._free.pop(place)
        found.ended = ended
        return found

    async def close(self) -> None:
        """End the process, if workers are left that were never handed out."""
        left, self._free = self._free, {}
        for one in left.values():
            await one.close()

    async def _renew(self) -> None:
        await self.close()  # what is left of a process that is gone, or ends with a worker that was handed out
        mates = tuple(Remote(ended=_nobody_yet, env=self._env) for _ in range(self._places))
        for one in mates:
            one.mates, one.starting = mates, mates[0].starting
        self._free = dict(enumerate(mates))


def _nobody_yet(end: Ended) -> None:
    raise AssertionError(f"chunk {end.version} ended before its worker had a post")
