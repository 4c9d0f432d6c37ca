"""Keeps what sharings need (daemons, partitions) standing as long as tenant processes live on it, and no longer."""

from collections.abc import Callable

from cotenant.devices.protocol import Ground


class Grounds:
    """The grounds that stand now. Setting one up or putting it back never happens under a living tenant."""

    def __init__(self, *, end_tenants: Callable[[], None]) -> None:
        self._end_tenants = end_tenants
        self._standing: list[Ground] = []

    def stand(self, ground: Ground | None) -> None:
        """See to it that this ground stands (None: only that none is in the way). Raises SharingUnavailable."""
        fallen = [one for one in self._standing if not one.stands()]
        fresh = ground is not None and ground not in self._standing
        in_the_way = [one for one in self._standing if one is not ground and one.alone]
        if fallen or in_the_way or (fresh and ground is not None and ground.alone):
            self.close()
        if ground is not None and ground not in self._standing:
            ground.__enter__()
            self._standing.append(ground)

    def close(self) -> None:
        """End all tenants, then put everything back."""
        self._end_tenants()
        while self._standing:
            self._standing.pop().__exit__(None, None, None)
